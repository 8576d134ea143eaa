"""Files of peers' releases, as their Go modules have them. Tests that need them are skipped without Go."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest


def module_folder(path: str, version: str, *, at: Path) -> Path:
    """The folder with the files of a module; Go looks up no other modules for it. `at` is a folder of the caller's."""
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"no go on PATH, which brings {path}")
    (at / "go.mod").write_text("module reader\n")
    command = [go, "mod", "download", "-json", f"{path}@{version}"]
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"Go does not get {path}@{version}: {done.stdout[-300:]}{done.stderr[-300:]}")
    return Path(json.loads(done.stdout)["Dir"])
