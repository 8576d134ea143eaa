"""What is known of the gateway's side, across streams that end in the middle."""

from __future__ import annotations

import pytest

from app.tenancy.agent.remote import Remote


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def remote(told: list[str]) -> Remote[int]:
    made: Remote[int] = Remote()
    made.subscribe(told.append)
    made.begin()
    made.put("a", 1)
    made.put("b", 1)
    made.complete()
    told.clear()
    return made


def test_a_new_whole_tells_what_differs(remote: Remote[int], told: list[str]) -> None:
    remote.begin()
    for name, item in (("a", 1), ("b", 2), ("d", 1)):
        remote.put(name, item)
    assert told == []
    remote.complete()
    assert told == ["b", "d"]
    assert remote.items == {"a": 1, "b": 2, "d": 1}
    remote.begin()
    remote.complete()
    assert told == ["b", "d", "a", "b", "d"]


def test_an_unfinished_whole_is_forgotten(remote: Remote[int], told: list[str]) -> None:
    remote.begin()
    remote.put("c", 1)
    remote.lose()
    assert (remote.items, remote.synced, told) == ({"a": 1, "b": 1}, False, [])


def test_changes_after_the_whole_are_told_at_once(remote: Remote[int], told: list[str]) -> None:
    remote.put("a", 1)
    remote.put("a", 2)
    remote.drop("b")
    remote.drop("none")
    remote.complete()
    assert told == ["a", "b"]
    assert remote.items == {"a": 2}
    assert remote.rounds == 1
