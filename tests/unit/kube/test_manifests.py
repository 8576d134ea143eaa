"""Manifest files as a source: everything is read, changes are followed, faults keep the last good content."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.kube.documents import read_objects
from app.kube.manifests import ManifestSource
from app.kube.store import Store
from tests.support.counting import Counted
from tests.support.running import running
from tests.support.waiting import PATIENCE, eventually

MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  namespace: kube-system
data: {{value: "{value}"}}
"""


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as records:
        yield records


def stores() -> dict[str, Store[Any]]:
    return {"ConfigMap": Store(lambda obj: obj["data"]["value"]), "Node": Store(lambda obj: obj["metadata"]["name"])}


def test_scalars_are_those_of_kubectl(tmp_path: Path) -> None:
    """An address of six pairs is text, and no number to the base of 60."""
    (tmp_path / "a.yaml").write_text("kind: X\nmac: 52:54:00\nsize: 1e3\n")
    assert read_objects(tmp_path / "a.yaml") == [{"kind": "X", "mac": "52:54:00", "size": 1000}]


async def test_loads_every_file_by_kind(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="1") + "---\n" + MAP.format(name="b", value="2"))
    (tmp_path / "deep" / "b.yml").write_text(
        "kind: Node\nmetadata: {name: 'n'}\n---\nkind: Other\nmetadata: {name: o}\n"
    )
    (tmp_path / "deep" / "c.json").write_text(
        '{"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"value": "3"}}'
    )
    (tmp_path / "notes.txt").write_text("not a manifest: [")
    (tmp_path / ".hidden.yaml").write_text("not a manifest: [")
    found = stores()
    source = ManifestSource(tmp_path, found.items())
    assert not source.healthy
    assert source.reason == "not loaded yet"
    async with running(source.run()):
        await asyncio.wait_for(asyncio.gather(*(store.wait_synced() for store in found.values())), PATIENCE)
    assert source.healthy
    assert found["ConfigMap"].keys() == [("default", "c"), ("kube-system", "a"), ("kube-system", "b")]
    assert found["Node"].keys() == [("", "n")]
    assert found["Node"].age is not None


async def test_two_stores_of_one_kind_are_both_filled(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="1"))
    values, names = stores()["ConfigMap"], Store(lambda obj: obj["metadata"]["name"])
    await ManifestSource(tmp_path, [("ConfigMap", values), ("ConfigMap", names)]).refresh()
    assert (values.values(), names.values()) == (["1"], ["a"])
    assert values.synced
    assert names.synced


async def test_follows_changes_additions_and_removals(tmp_path: Path) -> None:
    found = stores()
    maps, events = found["ConfigMap"], []
    (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="1"))
    async with running(ManifestSource(tmp_path, found.items(), interval=0.02).run()):
        await asyncio.wait_for(maps.wait_synced(), PATIENCE)
        maps.subscribe(lambda event, key, old, new: events.append((event, key[1], new)))
        (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="22"))
        await eventually(lambda: maps.get("kube-system", "a") == "22")
        (tmp_path / "b.yaml").write_text(MAP.format(name="b", value="1"))
        await eventually(lambda: maps.get("kube-system", "b") == "1")
        (tmp_path / "a.yaml").unlink()
        await eventually(lambda: maps.get("kube-system", "a") is None)
    assert events == [("MODIFIED", "a", "22"), ("ADDED", "b", "1"), ("DELETED", "a", None)]


async def test_broken_file_keeps_its_last_good_content(tmp_path: Path, logged: list[Any]) -> None:
    found = stores()
    source = ManifestSource(tmp_path, found.items())
    (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="1"))
    (tmp_path / "b.yaml").write_text(MAP.format(name="b", value="1"))
    assert await source.refresh()
    (tmp_path / "a.yaml").write_text("kind: ConfigMap\nmetadata: {name: a\n")
    (tmp_path / "b.yaml").write_text(MAP.format(name="b", value="two"))
    assert await source.refresh()
    assert source.healthy
    assert [record["reason"][: len(f"{tmp_path}/a.yaml:3:")] for record in logged] == [f"{tmp_path}/a.yaml:3:"]
    assert found["ConfigMap"].get("kube-system", "a") == "1"
    assert found["ConfigMap"].get("kube-system", "b") == "two"
    (tmp_path / "a.yaml").write_text(MAP.format(name="a", value="mended"))
    await source.refresh()
    assert source.healthy
    assert found["ConfigMap"].get("kube-system", "a") == "mended"
    assert not await source.refresh()


@pytest.mark.parametrize("content", [b"{", b"kind: \xff", b"- a", b"kind: List\nitems: [1]", b"a: b"])
async def test_what_cannot_be_read_costs_neither_readiness_nor_its_neighbors(
    tmp_path: Path, logged: list[Any], content: bytes
) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    (tmp_path / "b.yaml").write_text(MAP.format(name="b", value="1"))
    found = stores()
    source = ManifestSource(tmp_path, found.items())
    await source.refresh()
    assert (source.healthy, source.reason) == (True, "")
    assert found["ConfigMap"].keys() == [("kube-system", "b")]
    assert len(logged) == 1
    assert f"{tmp_path}/a.yaml" in logged[0]["reason"]


async def test_a_document_that_cannot_be_read_costs_itself_alone(tmp_path: Path, logged: list[Any]) -> None:
    """What its file held before stays where the rest of the file does not say otherwise."""
    found = stores()
    source = ManifestSource(tmp_path, found.items())
    first, second, third = (MAP.format(name=name, value="1") for name in "abc")
    (tmp_path / "x.yaml").write_text(f"{first}---\n{second}---\nspec: {{\n---\n{third}")
    await source.refresh()
    assert found["ConfigMap"].keys() == [("kube-system", "a"), ("kube-system", "b"), ("kube-system", "c")]
    (tmp_path / "x.yaml").write_text(f"{MAP.format(name='a', value='2')}---\nkind: ConfigMap\nmetadata: [\n")
    await source.refresh()
    assert found["ConfigMap"].values() == ["2", "1", "1"]
    (tmp_path / "x.yaml").write_text(first)
    await source.refresh()
    assert found["ConfigMap"].keys() == [("kube-system", "a")]
    assert len(logged) == 2


async def test_missing_directory_is_a_reason_and_heals(tmp_path: Path) -> None:
    found = stores()
    source = ManifestSource(tmp_path / "later", found.items())
    await source.refresh()
    assert "later: No such file" in source.reason
    assert not found["ConfigMap"].synced
    (tmp_path / "later").mkdir()
    await source.refresh()
    assert source.healthy
    assert found["ConfigMap"].synced


async def test_poison_is_skipped_and_later_files_win(tmp_path: Path) -> None:
    (tmp_path / "1.yaml").write_text(
        MAP.format(name="a", value="first") + "---\nkind: ConfigMap\nmetadata: {name: bad}\n"
    )
    (tmp_path / "2.yaml").write_text(MAP.format(name="a", value="second"))
    found, poisoned = stores(), Counted("watch_poison_objects_total", "kind")
    await ManifestSource(tmp_path, found.items()).refresh()
    assert found["ConfigMap"].get("kube-system", "a") == "second"
    assert poisoned() == {"ConfigMap": 1}
    assert {kind: len(store) for kind, store in found.items()} == {"ConfigMap": 1, "Node": 0}


async def test_links_that_lead_back_up_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.yaml").write_text(MAP.format(name="a", value="1"))
    (tmp_path / "deep" / "up").symlink_to(tmp_path)
    found = stores()
    source = ManifestSource(tmp_path, found.items())
    await source.refresh()
    assert source.reason == ""
    assert found["ConfigMap"].keys() == [("kube-system", "a")]
