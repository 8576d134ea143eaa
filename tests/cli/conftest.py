"""Where and in what surroundings `berth explain` is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.explaining import DENIED, NADS, PLAIN, POD


@pytest.fixture
def plain_surroundings(monkeypatch) -> None:
    """No variable of the caller's shell changes the answer."""
    for name in ("NO_COLOR", "FORCE_COLOR", "NAMESPACE", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def manifests(tmp_path, monkeypatch) -> Path:
    """The directory the commands are typed in."""
    for name, text in {"nads": NADS, "pod": POD, "plain": PLAIN, "denied": DENIED}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path
