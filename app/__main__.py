"""`python -m app` and the `berth` console script."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from app.cli.main import run


def main() -> None:
    """Run the command line and exit with its status."""
    # Before anything imports gRPC: its core writes lines of its own among ours, of what we log or count anyway.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # A standard stream that was closed before we began is None here; what is written to it is meant to be lost.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
