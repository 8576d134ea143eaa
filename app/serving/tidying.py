"""Gives the memory of connections that have ended back to the system.

A connection leaves circles of objects behind, and pieces of its buffers between those of others. Neither the garbage
collector, which counts objects and not bytes, nor the allocator would come to them in time: under a flood the process
would grow by what was once open, not by what is.
"""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Collect all circles and trim the heap: some 30 ms after thousands of connections; for floods alone."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it; others need not
    if trim is not None:
        trim(0)
