"""A test below this folder starts no process and no API server: one that does fails, and belongs to `tests/integration`.

This is what keeps `make unit` short; no list of fast tests has to be kept.
"""

from __future__ import annotations

import functools
import os
import subprocess
from typing import Any

import pytest

from app.devtools.sandbox.server import Cluster

_STARTS = ((os, "fork"), (os, "posix_spawn"), (subprocess.Popen, "__init__"))
"""By what Python starts a process. A hook for audit events would be called a thousand times for each test."""


def _refusing(owner: Any, name: str, what: str) -> None:
    """Let a unit test fail that calls this to start something."""
    start = getattr(owner, name)

    @functools.wraps(start)
    def started(*arguments: Any, **options: Any) -> Any:
        if os.environ.get("PYTEST_CURRENT_TEST", "").startswith("tests/unit/"):
            pytest.fail(f"a unit test starts {what}: move it to tests/integration")
        return start(*arguments, **options)

    pytest.MonkeyPatch().setattr(owner, name, started)


for owner, name in _STARTS:
    _refusing(owner, name, "a process")
_refusing(Cluster, "__init__", "an API server")
