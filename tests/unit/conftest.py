"""A test below this folder starts no process and no API server: one that does fails, and belongs to `tests/integration`.

This is what keeps `make unit` short; no list of fast tests has to be kept.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from app.devtools.sandbox.server import Cluster

_STARTS = ("os.fork", "os.posix_spawn", "subprocess.Popen")
"""The audit events of Python when a process is about to start."""
_start_cluster = Cluster.__init__


def _refuse(what: str) -> None:
    if os.environ.get("PYTEST_CURRENT_TEST", "").startswith("tests/unit/"):
        pytest.fail(f"a unit test starts {what}: move it to tests/integration")


def _audit(event: str, _: tuple[object, ...]) -> None:
    if event in _STARTS:
        _refuse("a process")


def _init(self: Cluster, *arguments: Any, **options: Any) -> None:
    _refuse("an API server")
    _start_cluster(self, *arguments, **options)


sys.addaudithook(_audit)
pytest.MonkeyPatch().setattr(Cluster, "__init__", _init)
