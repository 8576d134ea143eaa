"""Manifest files as a source: everything is read, changes are followed, faults keep the last good content."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app.kube.documents import DocumentError, parse_objects, read_objects
from app.kube.manifests import ManifestSource
from app.kube.store import Store
from tests.kube.apiserver import eventually, running

MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  namespace: kube-system
data: {{value: "{value}"}}
"""


def stores() -> dict[str, Store[Any]]:
    return {"ConfigMap": Store(lambda obj: obj["data"]["value"]), "Node": Store(lambda obj: obj["metadata"]["name"])}


def test_documents_lists_and_json_are_unfolded() -> None:
    text = (
        "---\n"
        + MAP.format(name="a", value="1")
        + "---\n# nothing here\n---\n"
        + json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n"}}]})
    )
    assert [obj["metadata"]["name"] for obj in parse_objects(text, name="x.yaml")] == ["a", "n"]
    node_list = json.dumps({"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n"}}]})
    assert parse_objects(node_list, name="x.json") == [{"metadata": {"name": "n"}, "kind": "Node", "apiVersion": "v1"}]


def test_yaml_becomes_json() -> None:
    """Dates stay text and keys are strings, as kubectl sends them."""
    (obj,) = parse_objects("kind: X\nday: 2026-01-02\n2: a\ntrue: b\n", name="x.yaml")
    assert obj == {"kind": "X", "day": "2026-01-02", "2": "a", "true": "b"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.yaml", "kind: X\na: [1,\n", r"x\.yaml:3: "),
        ("x.yaml", "kind: X\n---\nkind: Y\nb: c: d\n", r"x\.yaml:4: mapping values"),
        ("x.json", '{"kind": "X",\n "a": }', r"x\.json:2: Expecting value"),
        ("x.yaml", "kind: X\n---\n- 1\n", r"x\.yaml:3: expected an object"),
        ("x.yaml", "apiVersion: v1\n", r"x\.yaml:1: the object has no kind"),
        ("x.yaml", "kind: X\na: !!python/object:os.system {}\n", r"x\.yaml:2: "),
        ("x.yaml", "kind: X\na: !!binary aGk=\n", "no form|not YAML"),
        ("x.yaml", "kind: X\na: &a [*a]\n", "not YAML"),
        ("x.yaml", "kind: X\na: \x00\n", r"x\.yaml:2: a character"),
        ("x.json", "[" * 100_000, r"x\.json"),
    ],
)
def test_fault_is_told_with_file_and_line(name: str, text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        parse_objects(text, name=name)
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="No such file"):
        read_objects(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"kind: \xe9")
    with pytest.raises(DocumentError, match="UTF-8"):
        read_objects(tmp_path / "latin.yaml")


async def test_loads_every_file_by_kind(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="1") + "---\n" + MAP.format(name="b", value="2"))
    (tmp_path / "deep" / "b.yml").write_text("kind: Node\nmetadata: {name: n}\n---\nkind: Other\nmetadata: {name: o}\n")
    (tmp_path / "deep" / "c.json").write_text(
        '{"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"value": "3"}}'
    )
    (tmp_path / "notes.txt").write_text("not a manifest: [")
    (tmp_path / ".hidden.yaml").write_text("not a manifest: [")
    found = stores()
    source = ManifestSource(tmp_path, found)
    assert not source.healthy
    assert source.reason == "not loaded yet"
    async with running(source.run()):
        await asyncio.wait_for(asyncio.gather(*(store.wait_synced() for store in found.values())), 5)
    assert source.healthy
    assert found["ConfigMap"].keys() == [("default", "c"), ("kube-system", "a"), ("kube-system", "b")]
    assert found["Node"].keys() == [("", "n")]
    assert found["Node"].age is not None


async def test_follows_changes_additions_and_removals(tmp_path: Path) -> None:
    found = stores()
    maps, events = found["ConfigMap"], []
    (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="1"))
    async with running(ManifestSource(tmp_path, found, interval=0.02).run()):
        await asyncio.wait_for(maps.wait_synced(), 5)
        maps.subscribe(lambda event, key, old, new: events.append((event, key[1], new)))
        (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="22"))
        await eventually(lambda: maps.get("kube-system", "a") == "22")
        (tmp_path / "b.yaml").write_text(MAP.format(name="b", value="1"))
        await eventually(lambda: maps.get("kube-system", "b") == "1")
        (tmp_path / "a.yaml").unlink()
        await eventually(lambda: maps.get("kube-system", "a") is None)
    assert events == [("MODIFIED", "a", "22"), ("ADDED", "b", "1"), ("DELETED", "a", None)]


async def test_broken_file_keeps_its_last_good_content(tmp_path: Path) -> None:
    found = stores()
    source = ManifestSource(tmp_path, found)
    (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="1"))
    (tmp_path / "b.yaml").write_text(MAP.format(name="b", value="1"))
    assert await source.refresh()
    (tmp_path / "a.yaml").write_text("kind: ConfigMap\nmetadata: {name: a\n")
    (tmp_path / "b.yaml").write_text(MAP.format(name="b", value="two"))
    assert await source.refresh()
    assert not source.healthy
    assert source.reason.startswith(f"{tmp_path}/a.yaml:3: ")
    assert found["ConfigMap"].get("kube-system", "a") == "1"
    assert found["ConfigMap"].get("kube-system", "b") == "two"
    (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="mended"))
    await source.refresh()
    assert source.healthy
    assert found["ConfigMap"].get("kube-system", "a") == "mended"
    assert not await source.refresh()


async def test_broken_from_the_start_is_loaded_but_not_healthy(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{")
    found = stores()
    source = ManifestSource(tmp_path, found)
    await source.refresh()
    assert found["ConfigMap"].synced
    assert not source.healthy


async def test_missing_directory_is_a_reason_and_heals(tmp_path: Path) -> None:
    found = stores()
    source = ManifestSource(tmp_path / "later", found)
    await source.refresh()
    assert "later: No such file" in source.reason
    assert not found["ConfigMap"].synced
    (tmp_path / "later").mkdir()
    await source.refresh()
    assert source.healthy
    assert found["ConfigMap"].synced


async def test_poison_is_skipped_and_later_files_win(tmp_path: Path) -> None:
    class Observed:
        def __init__(self) -> None:
            self.poisoned: list[str] = []
            self.counts: dict[str, int] = {}

        def restart(self, kind: str, reason: str) -> None:
            raise AssertionError

        def objects(self, kind: str, count: int) -> None:
            self.counts[kind] = count

        def poison(self, kind: str) -> None:
            self.poisoned.append(kind)

    (tmp_path / "1.yaml").write_text(
        MAP.format(name="a", value="first") + "---\nkind: ConfigMap\nmetadata: {name: bad}\n"
    )
    (tmp_path / "2.yaml").write_text(MAP.format(name="a", value="second"))
    found, observed = stores(), Observed()
    await ManifestSource(tmp_path, found, observer=observed).refresh()
    assert found["ConfigMap"].get("kube-system", "a") == "second"
    assert observed.poisoned == ["ConfigMap"]
    assert observed.counts == {"ConfigMap": 1, "Node": 0}
