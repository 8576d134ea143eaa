"""The settings of each role: flags, environment variables and defaults, read in one place."""
