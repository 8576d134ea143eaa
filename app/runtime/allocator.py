"""Configures glibc's malloc for the threads that gRPC starts."""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8
"""From malloc.h of glibc."""


def share_one_heap() -> None:
    """One heap for all threads, where the C library is glibc; to be called before there are any.

    By default each thread gets its own, and what a flood of connections left in one is not used for the next flood:
    the process would grow by a hundred MiB with each. The gateway's threads hardly meet in the allocator.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
