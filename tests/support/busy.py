"""`python -m tests.support.busy COMMAND …`: run a command while one program for each core never rests.

A test that depends on timing fails here. The exit status is the command's. The programs end with it, and also when this
process is killed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

_PROGRAM = """
import os, sys
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(10_000_000):
        pass
"""


@contextlib.contextmanager
def busy_cores() -> Iterator[list[subprocess.Popen[bytes]]]:
    """As many programs as there are cores compete for them, without a limit."""
    command = [sys.executable, "-c", _PROGRAM, str(os.getpid())]
    programs = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield programs
    finally:
        for program in programs:
            program.kill()
            program.wait()


def main(command: Sequence[str]) -> int:
    if not command:
        sys.exit("usage: python -m tests.support.busy COMMAND [ARGUMENT ...]")
    with busy_cores():
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
