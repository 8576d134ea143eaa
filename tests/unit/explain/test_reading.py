"""Which files of a directory are read, which are skipped, and what is said of them; whatever is in it, it ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.errors import UsageError
from app.explain import reading
from app.explain.reading import read_all
from app.kube import documents


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "b.yaml": "kind: B\n",
        "README.md": "# no manifest\n",
        "values.yaml": "image: {tag: v1}\n",
        "below/deep/c.json": '{"kind": "C"}',
        ".git/hidden.yaml": "kind: Hidden\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def kinds(source: reading.Source) -> list[str]:
    return [obj["kind"] for _, obj in source.objects]


def test_a_directory_is_read_alone_and_says_what_it_skips(tree: Path) -> None:
    found = read_all([str(tree)])
    assert kinds(found) == ["B"]
    said = "2 files that are no manifests (README.md, values.yaml) and 1 directory (-R reads them)"
    assert found.skipped == [f"{tree}: skipped {said}"]


def test_recursively_directories_below_are_read_but_for_hidden_ones(tree: Path) -> None:
    found = read_all([str(tree)], recursive=True)
    assert kinds(found) == ["B", "C"]
    assert found.skipped == [f"{tree}: skipped 2 files that are no manifests (README.md, values.yaml)"]


def test_many_skipped_files_are_named_in_part(tree: Path) -> None:
    for number in range(9):
        (tree / f"note{number}.txt").write_text("x")
    (line,) = read_all([str(tree)], recursive=True).skipped
    assert line.endswith(
        "skipped 11 files that are no manifests (README.md, note0.txt, note1.txt, note2.txt, note3.txt, …)"
    )


def test_links_are_followed_once(tree: Path) -> None:
    (tree / "below" / "up").symlink_to(tree)
    (tree / "self.yaml").symlink_to("self.yaml")
    (tree / "linked.yaml").symlink_to("below/deep/c.json")
    (tree / "zero.yaml").symlink_to("/dev/zero")
    assert kinds(read_all([str(tree)], recursive=True)) == ["B", "C", "C"]


def test_a_file_of_a_directory_that_cannot_be_read_stops_nothing(tree: Path) -> None:
    (tree / "a-binary.yaml").write_bytes(b"\x7fELF\xff\x00")
    (tree / "broken.yaml").write_text("kind: X\na: b: c\n")
    (tree / "mixed.yaml").write_text("kind: M\n---\nno: kind\n")
    found = read_all([str(tree)], recursive=True)
    assert kinds(found) == ["B", "C", "M"]
    binary, broken, mixed = found.faults
    assert binary == f"cannot read {tree}/a-binary.yaml: it is not UTF-8 text (byte 4)"
    assert broken.startswith(f"{tree}/broken.yaml:2:5: not valid YAML")
    assert mixed == f"{tree}/mixed.yaml:3: want an object with apiVersion and kind, but kind is missing"


def test_a_directory_below_that_may_not_be_read_is_a_fault(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read every directory, so the refusal is made."""
    scan = os.scandir

    def refuse(place: str) -> object:
        if place.endswith("below"):
            raise PermissionError(13, "Permission denied", place)
        return scan(place)

    monkeypatch.setattr(documents.os, "scandir", refuse)
    found = read_all([str(tree)], recursive=True)
    assert (kinds(found), found.faults) == (["B"], [f"cannot read {tree}/below: Permission denied"])


def test_names_with_control_characters_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "red\x1b[31m\n.yaml").write_text("kind: [\n")
    (tmp_path / "a.yaml").write_text("kind: A\n")
    (fault,) = read_all([str(tmp_path)]).faults
    assert "red\\u001b[31m\\u000a.yaml:2:1: not valid YAML" in fault


def test_a_kustomization_is_named_with_the_flag_that_builds_it(tree: Path) -> None:
    (tree / "below" / "kustomization.yaml").write_text("kind: Kustomization\nresources: [deep/c.json]\n")
    (line,) = read_all([str(tree)], recursive=True).skipped
    assert line.endswith(f"; -k {tree}/below builds what the kustomization says")
    (line,) = read_all([str(tree / "below")]).skipped
    assert line.startswith(f"{tree}/below: skipped 1 directory (-R reads them); -k ")


def test_what_is_named_and_has_too_much_is_an_error(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(reading, "MOST_ENTRIES", 2)
    with pytest.raises(UsageError, match="/dev/zero: it has more than 1 MiB"):
        read_all(["/dev/zero"])
    with pytest.raises(UsageError, match="more than 2 files: name fewer directories"):
        read_all([str(tree)], recursive=True)


def test_a_directory_of_directories_names_the_flag(tree: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no \.yaml, \.yml, \.json file; -R reads the directories below it"):
        read_all([str(tree / "below")])


def test_aliases_of_aliases_end_in_an_error(tmp_path: Path) -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 10))
    (tmp_path / "bomb.yaml").write_text(f"kind: Pod\nl0: &l0 [x, x]\n{levels}")
    with pytest.raises(
        UsageError, match=r"bomb\.yaml:6:15: not valid YAML: aliases make the document many times larger"
    ):
        read_all([str(tmp_path / "bomb.yaml")])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_files_with_a_byte_order_mark_are_read_wherever_they_stand(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.yaml").write_text("kind: A\n---\nkind: B\n", encoding=encoding)
    for path in (tmp_path, tmp_path / "a.yaml"):
        assert kinds(read_all([str(path)])) == ["A", "B"]
