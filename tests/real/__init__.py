"""Real components for the tests: `python -m tests.real [PROGRAM …]` builds them from pinned modules (Go, and its proxy).

Each folder is a Go module: its `go.mod` pins what it builds, and its lines `tool` are the programs.
"""
