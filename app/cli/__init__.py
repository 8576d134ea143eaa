"""The command line: commands that parse their flags, hand over to the rest, and print one line for each error."""
