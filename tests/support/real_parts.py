"""Real components beside Berth: the programs that `tests/real` pins, where they are built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")


def real_part(name: str) -> Path | None:
    """The program in the folder that `KUBEBUILDER_ASSETS` names, as `make real` does; None where it is not built."""
    path = Path(_ASSETS, name)
    return path if _ASSETS and path.exists() else None


def needs(*names: str) -> list[pytest.MarkDecorator]:
    """The marks of tests that run by these programs in `make real`, and are skipped where one of them is not built."""
    missing = [name for name in names if real_part(name) is None]
    reason = f"{' and '.join(missing)} not built: `make real` builds what it needs, and runs this"
    return [pytest.mark.real, pytest.mark.skipif(bool(missing), reason=reason)]
