"""`python -m tests.support.multus`: asks the code of Multus again. Needs Go, and its modules or a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from app.wire import encode_json
from tests.support.multus.answers import ANSWERS
from tests.support.multus.inputs import cases

HERE = Path(__file__).parent


def main() -> None:
    """Write the answers anew."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("parse.go", "go.mod"):
            shutil.copy(HERE / name, folder)
        asked = b"".join(encode_json(case) + b"\n" for case in cases())
        environment = {**os.environ, "GOFLAGS": "-mod=mod"}
        run = subprocess.run(
            ["go", "run", "."], cwd=folder, env=environment, input=asked, capture_output=True, check=False
        )
    if run.returncode:
        raise SystemExit(run.stderr.decode(errors="replace"))
    ANSWERS.write_bytes(run.stdout)


if __name__ == "__main__":
    main()
