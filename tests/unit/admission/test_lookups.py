"""What one review asks an API server: each question once, and not too many."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from app.admission.chain import MOST_LOOKUPS, Chain, MutationPlan, Reviewed
from app.admission.review import Request
from app.kube.asking import asking_once, once
from app.kube.client import KubeClient
from app.kube.lookup import Lookup
from app.kube.resources import PODS
from app.kube.store import Store, key_of
from tests.support.pod_requests import request_for


class Asking:
    """A check that asks about so many names, each twice."""

    def __init__(self, names: int) -> None:
        self._names = names
        self.asked: list[int] = []

    def check(self, request: Request, plan: MutationPlan) -> Awaitable[None]:
        return self._ask()

    async def _ask(self) -> None:
        for name in [*range(self._names)] * 2:
            assert (
                await once(name, lambda name=name: self._answer(name), field="spec.items", what=f"item {name}") is None
            )

    async def _answer(self, name: int) -> None:
        """Nothing is there."""
        self.asked.append(name)


async def reviewed(*checks: Asking) -> Reviewed:
    return await Chain(checks=checks).review(request_for({"metadata": {"name": "p"}, "spec": {}}))


async def test_each_question_is_asked_once_in_a_review() -> None:
    first, second = Asking(3), Asking(3)
    for _ in range(2):
        assert (await reviewed(first, second)).decision.allowed
    assert first.asked == [0, 1, 2] * 2
    assert second.asked == []  # the first one asked already


async def test_a_review_with_too_many_questions_is_denied_with_the_field_and_the_bound() -> None:
    asking = Asking(MOST_LOOKUPS + 1)
    decision = (await reviewed(asking)).decision
    assert not decision.allowed
    assert decision.reason == "TooManyLookups"
    assert decision.message == (
        f"spec.items: want at most {MOST_LOOKUPS} different objects and rights that the API server has to be asked "
        f"about, got more: the next is item {MOST_LOOKUPS}"
    )
    assert len(asking.asked) == MOST_LOOKUPS
    assert (await reviewed(Asking(MOST_LOOKUPS))).decision.allowed


async def test_questions_outside_of_a_review_are_asked_each_time() -> None:
    asking = Asking(2)
    await asking.check(request_for({}), MutationPlan())
    assert asking.asked == [0, 1, 0, 1]


async def test_two_lookups_of_a_resource_by_the_same_function_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that are made anew for each owner of an object."""
    asked: list[str] = []

    async def get(_client: KubeClient, _resource: Any, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        asked.append(name)
        return {"metadata": {"name": name, "namespace": namespace}}

    monkeypatch.setattr(KubeClient, "get", get)
    client: Any = object.__new__(KubeClient)
    with asking_once(5):
        for name in ("a", "b", "a"):
            lookup = Lookup(PODS, Store(key_of), key_of, client=lambda: client, called="Pod")
            assert await lookup.find("ns", name) == ("ns", name)
    assert asked == ["a", "b"]


def test_whether_any_namespace_has_a_name() -> None:
    store: Store[Any] = Store(key_of)
    lookup = Lookup(PODS, store, key_of, client=lambda: None, called="Pod")

    def put(namespace: str, name: str) -> None:
        store.upsert({"metadata": {"namespace": namespace, "name": name}})

    put("one", "a")
    assert lookup.has_name("a")
    assert not lookup.has_name("b")
    put("one", "b")
    put("two", "b")
    put("two", "b")
    store.remove("one", "b")
    assert lookup.has_name("b")
    store.remove("two", "b")
    assert not lookup.has_name("b")
    store.replace_all([{"metadata": {"namespace": "two", "name": "c"}}])
    assert [lookup.has_name(name) for name in "abc"] == [False, False, True]
