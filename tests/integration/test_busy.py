"""Programs that keep the cores busy beside the tests of `.ci/run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import wait_until

BUSY = [sys.executable, "-m", "tests.support.busy"]


def children(pid: int) -> list[int]:
    """Of all threads of the process; none where it is gone."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "\nState:\tZ" not in status.read_text()


@pytest.mark.parametrize("status", [0, 2])
def test_the_exit_status_is_the_commands(status: int) -> None:
    assert subprocess.run([*BUSY, sys.executable, "-c", f"exit({status})"], cwd=ROOT, check=False).returncode == status


def test_a_program_for_each_core_is_busy_until_the_command_ends() -> None:
    with subprocess.Popen([*BUSY, "cat"], cwd=ROOT, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        programs = wait_until(
            lambda: (pids := children(process.pid)) and len(pids) == (os.cpu_count() or 1) + 1 and pids
        )
        assert all(is_running(pid) for pid in programs)
        process.stdin.close()
    assert process.returncode == 0
    assert not any(is_running(pid) for pid in programs)


def test_the_programs_end_when_their_parent_is_killed() -> None:
    with subprocess.Popen([*BUSY, "cat"], cwd=ROOT, stdin=subprocess.PIPE) as process:
        programs = wait_until(
            lambda: (pids := children(process.pid)) and len(pids) == (os.cpu_count() or 1) + 1 and pids
        )
        process.kill()
    wait_until(lambda: not any(is_running(pid) for pid in programs))
