"""Real components beside Berth: the programs that `tests/real` pins, where they are built."""

from __future__ import annotations

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


def needs_claims() -> pytest.MarkDecorator:
    """The mark of tests that need `resource.k8s.io/v1`: Kubernetes serves it since 1.34."""
    server = real_part("kube-apiserver")
    said = (
        subprocess.run([str(server), "--version"], capture_output=True, text=True, check=True).stdout if server else ""
    )
    version = re.match(r"Kubernetes v1\.(\d+)\.", said)
    lacks = version is not None and int(version[1]) < 34
    return pytest.mark.skipif(lacks, reason=f"resource.k8s.io/v1 comes with Kubernetes 1.34, this is {said.strip()}")
