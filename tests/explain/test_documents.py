"""Documents are read as the API server's own tools read them, and mistakes are named with their place."""

from __future__ import annotations

import io
import sys

import pytest

from app.errors import UsageError
from app.explain.documents import parse_documents, read_documents


def test_documents_know_where_they_begin() -> None:
    text = "# a comment\nkind: A\n---\n---\n\nkind: B\n"
    assert [(d.place, d.content["kind"]) for d in parse_documents(text, source="x.yaml")] == [
        ("x.yaml:2", "A"),
        ("x.yaml:6", "B"),
    ]


def test_a_stream_of_json_is_read_with_its_tabs() -> None:
    """Tabs are JSON's white space, and no YAML."""
    documents = parse_documents('{\n\t"kind": "A"\n}\n{"kind": "B"}\n', source="x.json")
    assert [(d.line, d.content["kind"]) for d in documents] == [(1, "A"), (4, "B")]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-02", "2026-01-02"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("12:30:45", "12:30:45"),
        ("52:54:00", "52:54:00"),
        ("1e3", 1000.0),
        ("0644", 0o644),
        ("0x10", 16),
        ("-1.5", -1.5),
        ("10", 10),
        ("yes", True),
        ("1Gi", "1Gi"),
        ("'1'", "1"),
        ("", None),
    ],
)
def test_scalars_are_kubernetes_scalars(text, value) -> None:
    (document,) = parse_documents(f"v: {text}\n", source="x")
    assert document.content == {"v": value}


def test_keys_are_text() -> None:
    (document,) = parse_documents("2: a\ntrue: b\n", source="x")
    assert document.content == {"2": "a", "true": "b"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: A\nspec: {a: [}\n", r"x:2:12: not valid YAML"),
        ("kind: A\n---\na: b: c\n", r"x:3:5: not valid YAML: mapping values"),
        ('{"kind": "A",}}\n', r"x:1:15: not valid YAML"),
        ("- a\n", r"x:1: want an object with apiVersion and kind, got a list"),
        ("kind: A\n---\nhello\n", r"x:3: want an object .*, got text"),
        ("a: !!set {b}\n", r"x:1: a value of kind set"),
        ("a: !!python/object:os.system {}\n", r"x:1:4: not valid YAML"),
        ("a: &a [*a]\n", r"x:1: "),
        ("a: \x00\n", r"x: not valid YAML"),
    ],
)
def test_mistakes_are_one_line_with_their_place(text, message) -> None:
    with pytest.raises(UsageError, match=f"^{message}") as caught:
        parse_documents(text, source="x")
    assert "\n" not in str(caught.value)


def test_files_directories_and_standard_input(tmp_path, monkeypatch) -> None:
    (tmp_path / "b.yaml").write_text("kind: B\n")
    (tmp_path / "a.json").write_text('{"kind": "A"}')
    (tmp_path / "notes.txt").write_text("not: read\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"kind: C\n")))
    kinds = [document.content["kind"] for document in read_documents([str(tmp_path), "-", "-"])]
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
            read_documents([str(tmp_path / path)])
