"""Files, directories and standard input; what stands in them is the business of `app.kube.documents`."""

from __future__ import annotations

import io
import sys

import pytest

from app.errors import UsageError
from app.explain.reading import read_all


def test_files_directories_and_standard_input(tmp_path, monkeypatch) -> None:
    (tmp_path / "b.yaml").write_text("kind: B\n")
    (tmp_path / "a.json").write_text('{"kind": "A"}')
    (tmp_path / "notes.txt").write_text("not: read\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"kind: C\n")))
    kinds = [obj["kind"] for _, obj in read_all([str(tmp_path), "-", "-"]).objects]
    assert kinds == ["A", "B", "C"]


def test_unreadable_files_are_named(tmp_path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\n")
    (tmp_path / "empty").mkdir()
    for path, message in (
        ("absent.yaml", "No such file"),
        ("latin.yaml", "not UTF-8"),
        ("empty", "holds no .yaml"),
    ):
        with pytest.raises(UsageError, match=message):
            read_all([str(tmp_path / path)])


def test_standard_input_that_is_no_text_is_named(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(UsageError, match="standard input: it is not UTF-8"):
        read_all(["-"])
