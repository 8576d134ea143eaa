"""A run of pytest inside of a test: its output, whatever became of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import PATIENCE


def nested_pytest(*arguments: str, cwd: Path) -> str:
    """Without the plugins and options of the run around it."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    ).stdout
