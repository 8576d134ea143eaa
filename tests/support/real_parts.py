"""Real components beside Berth: the programs that `tests/real` pins, where they are built."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from pathlib import Path

import pytest

_ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")


def real_part(name: str) -> Path | None:
    """The program in the folder that `KUBEBUILDER_ASSETS` names, as `make real` does; None where it is not built."""
    path = Path(_ASSETS, name)
    return path if _ASSETS and path.exists() else None


def needs(*names: str) -> list[pytest.MarkDecorator]:
    """The marks of tests that run by these programs, and are skipped where one of them is not built.

    `make real` and `make real-all` build what they need, and name the folder.
    """
    missing = [name for name in names if real_part(name) is None]
    reason = f"{' and '.join(missing)} not built: `make real-parts PARTS={names[0]}`, or all of it by `make real-all`"
    return [pytest.mark.real, pytest.mark.skipif(bool(missing), reason=reason)]


@functools.cache
def real_minor() -> int:
    """The minor version of Kubernetes in that folder; the newest, where there is none."""
    server = real_part("kube-apiserver")
    if server is None:
        return 1000
    printed = subprocess.run([str(server), "--version"], capture_output=True, text=True, check=True).stdout
    version = re.match(r"Kubernetes v1\.(\d+)\.", printed)
    assert version is not None, printed
    return int(version[1])


CLAIMS = 34
"""The minor version of Kubernetes that first serves `resource.k8s.io/v1`."""


def since(minor: int) -> pytest.MarkDecorator:
    """The mark of tests for what comes with this version of Kubernetes; older real ones skip them."""
    return pytest.mark.skipif(real_minor() < minor, reason=f"comes with Kubernetes 1.{minor}")
