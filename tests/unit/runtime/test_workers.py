"""The parent of several workers, without starting any."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from app.errors import UsageError
from app.runtime import workers


@pytest.fixture(autouse=True)
def read_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No directory for temporary files, as in a container whose root file system is read-only."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))


def test_counters_are_kept_in_memory_where_the_file_system_is_read_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workers, "SHARED_MEMORY", str(tmp_path))
    with workers.metrics_directory() as directory:
        assert Path(directory).parent == tmp_path
    assert not Path(directory).exists()


def test_a_machine_without_any_place_to_write_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workers, "SHARED_MEMORY", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="mount one at /tmp or set TMPDIR"):
        workers.metrics_directory()
