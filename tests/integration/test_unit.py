"""A unit test cannot start a process or an API server, by whatever means."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tests.support.nested import nested_pytest
from tests.support.paths import ROOT

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


def test_what_starts_a_process_or_an_api_server_fails(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "unit" / "conftest.py", folder)
    (folder / "test_a.py").write_text(MODULE)
    output = nested_pytest(
        *("-rA", "-p", "no:logging", "-c", os.devnull, "--rootdir", str(tmp_path), str(folder)),
        cwd=ROOT,
    )
    assert re.findall(r"^PASSED \S+::(\w+)", output, re.MULTILINE) == ["test_plain"], output
    failed = re.findall(r"^(?:FAILED|ERROR) \S+::(\w+)", output, re.MULTILINE)
    started = ("async_process", "cluster_in_a_thread", "cluster_of_a_fixture", "fork", "process")
    assert sorted(failed) == [f"test_{name}" for name in started], output
    # Lines of the tracebacks alone: the summary repeats each message, as far as the terminal is wide, and in full where CI is set.
    reasons = re.findall(r"^E +Failed: a unit test starts (a process|an API server): ", output, re.MULTILINE)
    assert sorted(reasons) == ["a process"] * 3 + ["an API server"] * 2, output
