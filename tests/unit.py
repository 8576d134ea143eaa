"""Skips each test that starts a process or a whole API server, when it does: `pytest -p tests.unit`, as `make unit` runs it.

No list says which tests these are, so none has to be kept.
"""

from __future__ import annotations

import os
import sys

import pytest

from app.devtools.sandbox.server import Cluster

STARTS = ("os.fork", "os.posix_spawn", "subprocess.Popen")
"""What Python tells its auditors when a process is about to start."""


def pytest_configure() -> None:
    sys.addaudithook(_no_process)
    pytest.MonkeyPatch().setattr(Cluster, "__init__", _no_cluster)


def _no_process(event: str, _: tuple[object, ...]) -> None:
    if event in STARTS and "PYTEST_CURRENT_TEST" in os.environ:
        pytest.skip("starts a process")


def _no_cluster(*_: object, **__: object) -> None:
    pytest.skip("starts an API server")
