"""`berth` as it is typed: run to its end."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.forking import BerthProcess, clean_environment
from tests.support.waiting import PATIENCE


def berth(*arguments: str, stdin: str = "", columns: int = 80, **env: str) -> subprocess.CompletedProcess[str]:
    """With `clean_environment` and without colors; what `env` says counts."""
    inherited = clean_environment()
    inherited.pop("FORCE_COLOR", None)
    with BerthProcess(
        *arguments,
        env=inherited | {"COLUMNS": str(columns), "NO_COLOR": "1"} | env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path.cwd(),
        text=True,
    ) as process:
        out, err = process.communicate(stdin, PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
