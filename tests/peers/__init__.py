"""What peers make of the same inputs, by their own code: `python -m tests.peers [--check]` (Go, and its module proxy)."""
