"""The cache: projection, indices, differences, listeners."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kube.store import PoisonError, Store
from app.kube.transport import completed_lines
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]


def obj(name: str, value: Any = "1", *, namespace: str = "ns", color: str = "red") -> JSON:
    return {"metadata": {"name": name, "namespace": namespace}, "value": value, "color": color}


def pair(source: JSON) -> tuple[str, str] | None:
    if source["value"] == "hidden":
        return None
    return source["value"], source["color"]


def colors(value: tuple[str, str]) -> list[str]:
    if value[1] == "broken":
        raise LookupError
    return [value[1]]


def store_with(*objects: JSON) -> Store[tuple[str, str]]:
    store = Store(pair, indices={"color": colors})
    store.replace_all(objects)
    return store


def test_keeps_what_the_projection_returns() -> None:
    store = store_with(obj("a", "1"), obj("b", "hidden"))
    assert store.get("ns", "a") == ("1", "red")
    assert store.get("ns", "b") is None
    assert store.values() == [("1", "red")]
    assert store.keys() == [("ns", "a")]
    assert len(store) == 1
    assert ("ns", "a") in store


def test_cluster_scoped_objects_have_an_empty_namespace() -> None:
    store = Store(lambda source: source["metadata"]["name"])
    store.upsert({"metadata": {"name": "node-1"}})
    assert store.get("", "node-1") == "node-1"


def test_index_follows_changes_and_is_ordered() -> None:
    store = store_with(obj("b"), obj("a", "2"), obj("c", color="blue"))
    assert store.by_index("color", "red") == [("2", "red"), ("1", "red")]
    store.upsert(obj("a", "2", color="blue"))
    assert store.by_index("color", "red") == [("1", "red")]
    store.remove("ns", "b")
    assert store.by_index("color", "red") == []
    assert store.by_index("color", "green") == []
    with pytest.raises(KeyError):
        store.by_index("size", "x")


def test_replacement_tells_the_difference() -> None:
    store = store_with(obj("same"), obj("changed"), obj("gone"), obj("hides"))
    events: list[tuple[Any, ...]] = []
    store.subscribe(lambda *event: events.append(event))
    diff = store.replace_all([obj("same"), obj("changed", "2"), obj("new"), obj("hides", "hidden")])
    gone, hides, changed, new = (("ns", name) for name in ("gone", "hides", "changed", "new"))
    assert diff == [("DELETED", gone), ("DELETED", hides), ("MODIFIED", changed), ("ADDED", new)]
    assert events == [
        ("DELETED", ("ns", "gone"), ("1", "red"), None),
        ("DELETED", ("ns", "hides"), ("1", "red"), None),
        ("MODIFIED", ("ns", "changed"), ("1", "red"), ("2", "red")),
        ("ADDED", ("ns", "new"), None, ("1", "red")),
    ]
    assert not store.replace_all([obj("same"), obj("changed", "2"), obj("new")])


def test_unchanged_projection_is_no_event() -> None:
    store = store_with(obj("a"))
    events: list[Any] = []
    store.subscribe(lambda *event: events.append(event))
    store.upsert({**obj("a"), "status": "noise"})
    store.remove("ns", "absent")
    assert events == []


@pytest.mark.parametrize(
    "bad", [{}, {"metadata": None}, {"metadata": {"name": ""}}, {"metadata": {"name": 1}}, None, "x"]
)
def test_nameless_object_is_poison(bad: Any) -> None:
    with pytest.raises(PoisonError):
        Store(pair).upsert(bad)


@pytest.mark.parametrize("bad", [{"metadata": {"name": "a", "namespace": "ns"}}, obj("a", color="broken")])
def test_poison_leaves_the_last_good_version(bad: JSON) -> None:
    """Whether the projection or an index raised, by event and by replacement."""
    store = store_with(obj("a"))
    with pytest.raises(PoisonError):
        store.upsert(bad)
    replacement = store.replacement()
    with pytest.raises(PoisonError):
        replacement.add(bad)
    assert not replacement.commit()
    assert store.get("ns", "a") == ("1", "red")
    with pytest.raises(PoisonError):
        store.replace_all([obj("b"), bad])
    assert store.keys() == [("ns", "a")]


def test_listener_that_raises_stops_nobody() -> None:
    store = store_with()
    heard: list[str] = []

    def broken(*event: Any) -> None:
        raise RuntimeError

    store.subscribe(broken)
    end = store.subscribe(lambda event, key, old, new: heard.append(event))
    store.upsert(obj("a"))
    end()
    end()
    store.upsert(obj("b"))
    assert heard == ["ADDED"]
    assert len(store) == 2


async def test_synced_once_is_synced() -> None:
    store = Store(pair)
    waiter = asyncio.create_task(store.wait_synced())
    await asyncio.sleep(0)
    assert not store.synced
    assert not waiter.done()
    store.mark_synced()
    await asyncio.wait_for(waiter, PATIENCE)
    assert store.synced


def test_age_counts_from_the_last_contact() -> None:
    now = 100.0
    store = Store(pair, clock=lambda: now)
    assert store.age is None
    store.touch()
    now = 107.0
    assert store.age == 7


names = st.sampled_from(["a", "b", "c", "d"])
contents = st.dictionaries(names, st.tuples(st.sampled_from(["1", "2", "hidden"]), st.sampled_from(["red", "blue"])))


@given(st.lists(contents, max_size=5))
def test_any_sequence_of_replacements_keeps_the_indices_right(sequence: list[dict[str, tuple[str, str]]]) -> None:
    """Replaying the events gives the content, and the index equals a search of the content."""
    store, mirror = store_with(), {}

    def replay(event: str, key: Any, old: Any, new: Any) -> None:
        assert mirror.get(key) == old
        if new is None:
            del mirror[key]
        else:
            mirror[key] = new

    store.subscribe(replay)
    for content in sequence:
        store.replace_all(obj(name, value, color=color) for name, (value, color) in content.items())
        assert mirror == dict(zip(store.keys(), store.values(), strict=True))
        for color in ("red", "blue"):
            assert sorted(store.by_index("color", color)) == sorted(v for v in store.values() if v[1] == color)


@given(st.lists(st.binary(max_size=8)), st.data())
def test_lines_do_not_depend_on_how_chunks_fall(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    unfinished, found, at = list[bytes](), list[bytes](), 0
    while at < len(stream):
        size = data.draw(st.integers(1, 10))
        found += completed_lines(unfinished, stream[at : at + size])
        at += size
    assert found == [line for line in stream.split(b"\n") if line.strip()]
    assert b"".join(unfinished) == b""


def test_unfinished_line_is_the_rest() -> None:
    unfinished = list[bytes]()
    assert completed_lines(unfinished, b"a\nb") == [b"a"]
    assert completed_lines(unfinished, b"c") == []
    assert completed_lines(unfinished, b"\n") == [b"bc"]
    assert b"".join(unfinished) == b""


def test_another_uid_under_a_name_that_is_held_is_a_contradiction() -> None:
    """Whatever the projection keeps; a uid is of the object as it was last seen, equal or not."""

    def of(uid: str | None) -> dict[str, Any]:
        return {"metadata": {"name": "a", "namespace": "n", **({"uid": uid} if uid else {})}}

    store: Store[str] = Store(lambda obj: "same")
    assert not store.contradicts(of("1"))
    store.upsert(of("1"))
    assert not store.contradicts(of("1"))
    assert not store.contradicts(of(None))
    assert store.contradicts(of("2"))
    store.replace_all([of("2")])
    assert not store.contradicts(of("2"))
    assert store.contradicts(of("1"))


def test_a_doubt_ends_with_the_next_full_load_and_is_told_once() -> None:
    store: Store[str] = Store(lambda obj: "same")
    told: list[bool] = []
    end = store.on_renewed(lambda: told.append(store.in_doubt))
    store.mark_synced()
    assert told == []
    store.suspect()
    assert store.in_doubt
    store.mark_synced()
    store.mark_synced()
    assert told == [False]
    end()
    store.suspect()
    store.mark_synced()
    assert told == [False]


def test_the_last_good_version_of_another_object_does_not_stay() -> None:
    """It was deleted and made anew while nobody watched: to keep it would contradict every later event."""

    def of(uid: str, **more: str) -> dict[str, Any]:
        return {"metadata": {"name": "a", "namespace": "n", "uid": uid}, **more}

    store: Store[str] = Store(lambda obj: obj["good"])
    store.upsert(of("1", good="yes"))
    for uid, left in (("1", "yes"), ("2", None)):
        replacement = store.replacement()
        with pytest.raises(PoisonError):
            replacement.add(of(uid))
        replacement.commit()
        assert store.get("n", "a") == left
        assert not store.contradicts(of(uid))


def valued(name: str, value: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value}


def test_a_replacement_knows_whether_it_would_change_anything() -> None:
    store = Store(lambda obj: obj["value"])
    store.replace_all([valued("a", "1"), valued("b", "2")])
    for objects, differs in (
        ([valued("b", "2"), valued("a", "1")], False),
        ([valued("a", "1")], True),
        ([valued("a", "1"), valued("b", "3")], True),
        ([valued("a", "1"), valued("c", "2")], True),
    ):
        replacement = store.replacement()
        for obj in objects:
            replacement.add(obj)
        assert replacement.differs() is differs


def test_values_come_one_after_the_other_in_the_order_in_which_they_came() -> None:
    store = Store(lambda obj: obj["value"], indices={"all": lambda _value: ["key"]})
    for name in ("b", "a", "c", "b"):
        store.upsert({"metadata": {"name": name}, "value": name})
    assert [*store.among("all", "key")] == ["b", "a", "c"]
    store.remove("", "b")
    assert next(store.among("all", "key")) == "a"
    assert [*store.among("all", "another")] == []
    with pytest.raises(KeyError):
        store.among("none", "key")


def test_values_are_counted_by_index() -> None:
    store = Store(lambda obj: obj["value"], indices={"value": lambda value: [value]})
    store.replace_all([valued("a", "1"), valued("b", "1"), valued("c", "2")])
    assert [store.count("value", key) for key in "123"] == [2, 1, 0]
    with pytest.raises(KeyError):
        store.count("other", "1")
