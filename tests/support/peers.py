"""Runs the peers' own code in Go, for values that tests compare with. Tests that need it are skipped without Go."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.support.paths import ROOT

_PEERS = ROOT / "tests" / "peers"


def run_peer(name: str, given: str) -> str:
    """What the program of `tests/peers/NAME` writes for this input; its modules are those of its go.sum."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go on PATH")
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    place = _PEERS / name
    loaded = subprocess.run([go, "mod", "download"], cwd=place, env=environment, capture_output=True, check=False)
    if loaded.returncode:
        pytest.skip(f"no modules for {name}: {loaded.stderr.decode()[-200:]}")
    command = [go, "run", "."]
    return subprocess.run(
        command, cwd=place, env=environment, input=given.encode(), stdout=subprocess.PIPE, check=True
    ).stdout.decode()
