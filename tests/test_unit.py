"""`make unit` leaves out what starts a process or an API server, however it does so, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]
MODULE = """
import asyncio
import multiprocessing
import subprocess
import sys
import pytest
from app.sandbox.server import Cluster

@pytest.fixture
def cluster():
    return Cluster("c")

def test_plain(): pass
def test_process(): subprocess.run([sys.executable, "-c", ""])
def test_async_process(): asyncio.run(asyncio.create_subprocess_exec(sys.executable, "-c", ""))
def test_fork(): multiprocessing.get_context("fork").Process(target=print).start()
def test_cluster_of_a_fixture(cluster): pass
def test_cluster_in_a_thread():
    async def start(): Cluster("c")
    asyncio.run(asyncio.to_thread(asyncio.run, start()))
"""


def test_what_starts_a_process_or_an_api_server_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(MODULE)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.unit",
            "-rA",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            tmp_path,
        ],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert re.findall(r"^PASSED \S+::(\w+)", done.stdout, re.MULTILINE) == ["test_plain"], done.stdout
    skipped: Counter[str] = Counter()
    for number, reason in re.findall(r"^SKIPPED \[(\d)\] .*: (.*)$", done.stdout, re.MULTILINE):
        skipped[reason] += int(number)
    assert skipped == {"starts a process": 3, "starts an API server": 2}, done.stdout
