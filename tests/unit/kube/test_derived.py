"""What is computed of an object is kept for its version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from app.kube.derived import Derived, Summary
from app.kube.store import Store


def obj(uid: str = "u", version: str = "1") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "resourceVersion": version}}


def test_it_is_computed_once_for_each_version() -> None:
    derived = Derived(lambda it: (it["metadata"]["uid"], it["metadata"]["resourceVersion"]))
    assert [derived(obj()) for _ in range(3)] == [("u", "1")] * 3
    assert derived.computed == 1
    assert derived(obj(version="2")) == ("u", "2")
    assert derived(obj("v")) == ("v", "1")
    assert derived.computed == 3


def test_of_what_no_api_server_has_stored_nothing_is_kept() -> None:
    derived = Derived(lambda _it: object())
    assert derived({"metadata": {}}) is not derived({"metadata": {}})
    assert derived(obj(version="")) is not derived(obj(version=""))


def asked(derived: Derived[str], uids: Iterable[str]) -> int:
    """How often something is computed for this."""
    before = derived.computed
    for uid in uids:
        derived(obj(uid))
    return derived.computed - before


def test_what_is_asked_for_again_stays() -> None:
    assert asked(Derived(lambda it: it["metadata"]["uid"], least=2), "abaca") == 3


def test_who_goes_through_all_objects_again_computes_none_twice() -> None:
    derived = Derived[str](lambda it: it["metadata"]["uid"], least=2)
    uids = [str(number) for number in range(100)]
    assert [asked(derived, uids) for _ in range(3)] == [100, 0, 0]


def test_of_objects_that_are_gone_nothing_stays() -> None:
    derived = Derived[str](lambda it: it["metadata"]["uid"], least=2)
    asked(derived, [f"gone-{number}" for number in range(100)])
    for _ in range(100):
        asked(derived, "abc")
    assert len(derived) == 3


def test_what_is_raised_is_raised_each_time() -> None:
    def refuse(_it: object) -> None:
        raise ValueError("no")

    derived = Derived(refuse)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            derived(obj())
    assert derived.computed == 2


def test_a_summary_is_made_once_between_two_changes() -> None:
    store = Store[str](lambda it: it["value"])
    made: list[list[str]] = []
    summary = Summary(store, lambda: made.append(sorted(store.values())) or made[-1])  # type: ignore[func-returns-value]
    for value in ("a", "a", "b"):
        store.upsert({"metadata": {"name": "x"}, "value": value})
        assert summary() is summary()
    store.remove("", "x")
    assert summary() == []
    assert made == [["a"], ["b"], []]


def test_what_a_summary_raises_is_raised_each_time() -> None:
    summary: Summary[int] = Summary(Store[str](str), lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            summary()
