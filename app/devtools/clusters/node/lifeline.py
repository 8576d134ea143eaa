"""Runs `berth` as a container of the sandbox: whatever ends the sandbox, SIGKILL too, ends the process with it.

`python -m app.devtools.clusters.node.lifeline PARENT ARGUMENT...`: PARENT is the id of the process that starts it.
A process that stayed would keep the address that the next sandbox gives to a Pod.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""Of Linux' prctl(2)."""


def follow(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; exit where that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    follow(int(sys.argv.pop(1)))
    # As `python -m app` does, so that the workers of a webhook begin as they would there.
    runpy.run_module("app", run_name="__main__", alter_sys=True)
