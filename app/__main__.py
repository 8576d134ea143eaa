"""`python -m app` and the `berth` console script."""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command line and exit with its status."""
    # Before anything imports gRPC: its core writes lines of its own among ours, of what we log or count anyway.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # aiohttp's lists in Python are as good for a role, and need no C++ library beside them.
    os.environ.setdefault("FROZENLIST_NO_EXTENSIONS", "1")
    # A standard stream that was closed before we began is None here; what is written to it is meant to be lost.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    # Where code that is not Python aborts the process, the log says what was running; in workers too.
    os.environ.setdefault("PYTHONFAULTHANDLER", "1")
    faulthandler.enable()
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    # Asked every few seconds where an engine does: four fifths of its time would go into importing others.
    if arguments == ["health"]:
        from app.cli.health import health_alone  # noqa: PLC0415

        return health_alone()
    from app.cli.main import run  # noqa: PLC0415

    return run(arguments)


if __name__ == "__main__":
    main()
