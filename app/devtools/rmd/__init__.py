"""A stand-in for the Resource Management Daemon, RMD v0.3: its REST API on a machine that does not exist."""
