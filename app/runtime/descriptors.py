"""Raises the process's soft limit of open descriptors as far as its hard limit allows.

Container runtimes start processes with 1,024, a limit for programs that use `select`. Each connection takes one.
"""

from __future__ import annotations

import contextlib
import resource

MOST = 65_536
"""More than our bounds on connections ever take."""


def raise_limit() -> None:
    """Raise the soft limit to the hard one, or to `MOST`; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # some sandboxes forbid it: then there is room for fewer
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
