"""`make unit` leaves out what starts a process or an API server, however it does so, and nothing else."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

from tests.nested import nested_pytest

ROOT = Path(__file__).parents[1]
MODULE = """
import asyncio
import multiprocessing
import subprocess
import sys
import pytest
from app.devtools.sandbox.server import Cluster

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
    output = nested_pytest("-p", "tests.unit", "-rA", "-c", os.devnull, str(tmp_path), cwd=ROOT)
    assert re.findall(r"^PASSED \S+::(\w+)", output, re.MULTILINE) == ["test_plain"], output
    skipped: Counter[str] = Counter()
    for number, reason in re.findall(r"^SKIPPED \[(\d)\] .*: (.*)$", output, re.MULTILINE):
        skipped[reason] += int(number)
    assert skipped == {"starts a process": 3, "starts an API server": 2}, output
