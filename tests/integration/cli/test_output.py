"""What becomes of a command whose output nobody can keep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE

FULL = Path("/dev/full")


@pytest.mark.parametrize("arguments", [["--version"], ["explain", "-f", "examples/webhook-demo.yaml"]])
def test_a_full_disk_is_one_line_and_status_1(arguments: list[str]) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "Error: cannot write the output: No space left on device\n"


def test_a_closed_standard_error_stops_nothing() -> None:
    """Some supervisors start their children without one; what would be written there is lost, and no more."""
    command = [sys.executable, "-m", "app", "explain", "-f", "examples/webhook-demo.yaml"]
    command += ["-f", "examples/attachments/foo-network.yaml"]
    shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    done = subprocess.run(shell, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0
    assert "example.com/foo" in done.stdout
