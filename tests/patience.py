"""How long a test waits for what comes true by itself."""

PATIENCE = 240.0
"""Seconds. It ends a test that hangs and says nothing about how fast anything is: a busy machine takes its time."""
