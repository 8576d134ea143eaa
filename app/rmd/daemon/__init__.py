"""The REST API of the Resource Management Daemon: its JSON, and a client."""
