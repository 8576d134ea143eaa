"""Documents are read as the API server's own tools read them, and mistakes are named with their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.kube.documents import DocumentError, parse_documents, read_objects
from app.yaml_documents import YamlError, load_yaml


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
        ("1e3", 1000),
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
        ("a: -.inf\n", r"x:1:4: not valid YAML: -inf is no number of JSON"),
        ('{"a": 1e400}', r"x:1: not valid YAML: 1e400 is no number"),
        ("kind: A\n---\nhello\n", r"x:3: want an object .*, got text"),
        ("a: !!int b\n", r"x:1:4: not valid YAML: !!int: 'b' is none"),
        ("a: &a [*a]\n", r"x:1:8: not valid YAML: the value of anchor a contains itself"),
        ("a: \x00\n", r"x:1: not valid YAML"),
    ],
)
def test_mistakes_are_one_line_with_their_place(text, message) -> None:
    with pytest.raises(DocumentError, match=f"^{message}") as caught:
        parse_documents(text, source="x")
    assert "\n" not in str(caught.value)


def test_lists_are_unfolded(tmp_path: Path) -> None:
    one = {"apiVersion": "v1", "kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n"}}]}
    (tmp_path / "a.yaml").write_text(f"kind: A\n---\n# nothing here\n---\n{json.dumps(one)}\n")
    assert [obj["kind"] for obj in read_objects(tmp_path / "a.yaml")] == ["A", "Node"]
    (tmp_path / "b.json").write_text('{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n"}}]}')
    assert read_objects(tmp_path / "b.json") == [{"metadata": {"name": "n"}, "kind": "Node", "apiVersion": "v1"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: v1\n", r"a\.yaml:1: .* kind is missing"),
        ("kind: List\nitems: [1]\n", r"a\.yaml:1 item 1: want an object"),
        ("[" * 100_000, r"a\.yaml:1:401: not valid YAML: nested in more than 400 levels"),
        ("kind: X\na: !!binary a\n", r"a\.yaml:2:4: not valid YAML: !!binary: want base64"),
        ("kind: X\na: \x00\n", r"a\.yaml:2: not valid YAML"),
    ],
)
def test_faults_of_a_file_are_told_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(DocumentError, match=message) as caught:
        read_objects(tmp_path / "a.yaml")
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="No such file"):
        read_objects(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"kind: \xe9")
    with pytest.raises(DocumentError, match="UTF-8"):
        read_objects(tmp_path / "latin.yaml")


def test_aliases_are_written_out_within_reason() -> None:
    """An alias stands for its value; aliases of aliases of aliases are refused before they fill the memory."""
    (document,) = parse_documents("kind: A\na: &a {b: 1}\nc: *a\n", source="x")
    assert document.content["c"] == {"b": 1}
    bomb = "kind: A\na0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 10):
        bomb += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n"
    with pytest.raises(DocumentError, match=r"x:\d:\d+: not valid YAML: aliases make the document"):
        parse_documents(bomb, source="x")


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "? "])
def test_a_text_that_is_nested_too_deeply_is_refused(opening: str) -> None:
    text = opening * 300_000
    with pytest.raises(DocumentError, match="not valid YAML"):
        parse_documents(text, source="x")
    with pytest.raises(YamlError, match="nested in more than"):
        load_yaml(text)


MARKED = [
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
]
TWO = "kind: A\nname: ü€😀\n---\n# a comment\nkind: B\n"


@pytest.mark.parametrize(("mark", "encoding"), MARKED)
@pytest.mark.parametrize("text", [TWO, TWO.replace("\n", "\r\n"), '{"kind": "A", "name": "ü€😀"}\n{"kind": "B"}\n'])
def test_a_byte_order_mark_says_how_a_file_is_read(tmp_path, mark, encoding, text) -> None:
    """As kubectl 1.37.2 reads such files (k8s.io/cli-runtime pkg/resource/visitor.go, unicode.BOMOverride)."""
    path = tmp_path / "a.yaml"
    path.write_bytes(mark + text.encode(encoding))
    assert read_objects(path) == [{"kind": "A", "name": "ü€😀"}, {"kind": "B"}]
    assert load_yaml(mark + "a: b".encode(encoding)) == {"a": "b"}


@pytest.mark.parametrize(
    ("content", "called"),
    [
        (b"\xff\xfea", "UTF-16"),
        (b"\xfe\xff\x00a\xd8", "UTF-16"),
        (b"\xef\xbb\xbf\xff", "UTF-8"),
        ("kind: ü".encode("latin-1"), "UTF-8"),
    ],
)
def test_a_file_that_is_not_what_its_mark_says_is_named(tmp_path, content, called) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=f"^cannot read {path}: it is not {called} text"):
        read_objects(path)
    # Without a mark the zeros of UTF-16 are no characters of YAML, for kubectl neither.
    path.write_bytes("kind: A".encode("utf-16-le"))
    with pytest.raises(DocumentError, match="a character that it does not allow"):
        read_objects(path)
