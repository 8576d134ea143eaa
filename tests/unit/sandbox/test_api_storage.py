"""Storage on its own: versions, the kept window, states of the past."""

from __future__ import annotations

from typing import Any

import pytest

from app.devtools.sandbox.api.selection import EVERYTHING
from app.devtools.sandbox.api.watching import WatchOptions, watch_lines
from app.devtools.sandbox.history import CompactedError
from app.devtools.sandbox.kinds.builtin import PODS
from app.devtools.sandbox.storage import AlreadyExistsError, ConflictError, MissingError, Storage
from app.wire import decode_json

KEY = PODS.key


def pod(name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "n"}, **more}


def test_versions_only_grow_and_conflicts_are_found() -> None:
    storage = Storage()
    first = storage.create(KEY, pod("a"))
    second = storage.update(KEY, pod("a", spec={}), expected=first["metadata"]["resourceVersion"])
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    with pytest.raises(ConflictError):
        storage.update(KEY, pod("a"), expected=first["metadata"]["resourceVersion"])
    with pytest.raises(AlreadyExistsError):
        storage.create(KEY, pod("a"))
    assert int(storage.delete(KEY, "n", "a")["metadata"]["resourceVersion"]) == storage.version
    with pytest.raises(MissingError):
        storage.delete(KEY, "n", "a")
    with pytest.raises(MissingError):
        storage.update(KEY, pod("a"))


def test_a_past_state_is_rebuilt_from_the_window() -> None:
    storage = Storage(window=4)
    storage.create(KEY, pod("a", spec={"v": 1}))
    storage.create(KEY, pod("b"))
    past = storage.version
    storage.update(KEY, pod("a", spec={"v": 2}))
    storage.delete(KEY, "n", "b")
    storage.create(KEY, pod("c"))
    then = storage.list_at(KEY, past)
    assert sorted(then) == [("n", "a"), ("n", "b")]
    assert then["n", "a"]["spec"] == {"v": 1}
    storage.create(KEY, pod("d"))
    storage.create(KEY, pod("e"))
    with pytest.raises(CompactedError):
        storage.list_at(KEY, past)


def test_the_window_is_per_resource() -> None:
    storage = Storage(window=2)
    start = storage.version
    storage.create(KEY, pod("a"))
    for number in range(10):
        storage.create(("", "nodes"), {"kind": "Node", "apiVersion": "v1", "metadata": {"name": f"n{number}"}})
    assert storage.position(KEY, start) == 0
    with pytest.raises(CompactedError):
        storage.position(("", "nodes"), start)


async def test_a_watcher_that_falls_behind_is_told_and_ends() -> None:
    storage = Storage(window=2)
    options = WatchOptions("", EVERYTHING, storage.version, bookmarks=False, timeout=60, bookmark_interval=60)
    lines = watch_lines(storage, PODS, options, render=lambda obj: obj, shared=True)
    storage.create(KEY, pod("a"))
    assert decode_json(await anext(lines))["type"] == "ADDED"
    for name in "bcd":
        storage.create(KEY, pod(name))
    last = decode_json(await anext(lines))
    assert (last["type"], last["object"]["code"]) == ("ERROR", 410)
    with pytest.raises(StopAsyncIteration):
        await anext(lines)


async def test_changes_during_a_slow_send_are_not_lost() -> None:
    storage = Storage()
    options = WatchOptions("", EVERYTHING, storage.version, bookmarks=True, timeout=60, bookmark_interval=0)
    lines = watch_lines(storage, PODS, options, render=lambda obj: obj, shared=True)
    storage.create(KEY, pod("a"))
    seen = [decode_json(await anext(lines))]
    storage.create(KEY, pod("b"))  # while the line of the first is on its way
    seen.append(decode_json(await anext(lines)))
    assert [event["object"]["metadata"]["name"] for event in seen] == ["a", "b"]
    bookmark = decode_json(await anext(lines))
    assert bookmark["object"]["metadata"]["resourceVersion"] == str(storage.version)
    storage.close()


async def test_closing_ends_a_watch() -> None:
    storage = Storage()
    options = WatchOptions("", EVERYTHING, storage.version, bookmarks=False, timeout=60, bookmark_interval=60)
    lines = watch_lines(storage, PODS, options, render=lambda obj: obj, shared=True)
    storage.close()
    assert [line async for line in lines] == []


def test_a_packed_history_still_shows_what_happened() -> None:
    storage = Storage()
    start = storage.version
    storage.create(KEY, pod("a", spec={"v": 1}))
    past = storage.version
    storage.update(KEY, pod("a", spec={"v": 2}))
    storage.delete(KEY, "n", "a")
    for number in range(600):
        storage.create(KEY, pod(f"b{number}"))
    table = storage.table(KEY)
    added, modified, deleted = table.since(storage.position(KEY, start))[:3]
    assert [event.object.get("spec") for event in (added, modified, deleted)] == [{"v": 1}, {"v": 2}, {"v": 2}]
    assert deleted.object["metadata"]["resourceVersion"] == str(deleted.version)
    assert (added.previous, modified.previous) == (None, added.object)
    assert 0 < table.past_bytes < 1000
    assert storage.list_at(KEY, past)["n", "a"]["spec"] == {"v": 1}


def test_large_objects_shorten_the_window() -> None:
    storage = Storage()
    start = storage.version
    storage.create(KEY, pod("a"))
    for number in range(400):
        storage.update(KEY, pod("a", data=f"{number:03}" * (200 * 1024)))
    table = storage.table(KEY)
    assert table.past_bytes <= 64 * 1024 * 1024
    with pytest.raises(CompactedError):
        storage.position(KEY, start)
    assert len(table.events) >= 256


def test_equal_field_sets_are_kept_once() -> None:
    storage = Storage()
    stored = []
    for name in "ab":
        obj = pod(name)
        obj["metadata"]["managedFields"] = [{"manager": "m", "fieldsV1": {"f:spec": {"f:v": {}}}}]
        stored.append(storage.create(KEY, obj)["metadata"]["managedFields"][0]["fieldsV1"])
    assert stored[0] == {"f:spec": {"f:v": {}}}
    assert stored[0] is stored[1]
