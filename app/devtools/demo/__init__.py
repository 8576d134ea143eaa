"""The demo: the examples of the field, played against a sandbox, each promise checked."""
