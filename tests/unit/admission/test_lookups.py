"""What one review asks an API server: each question once, and not too many."""

from __future__ import annotations

from collections.abc import Awaitable

from app.admission.chain import MOST_LOOKUPS, Chain, Plan, Reviewed
from app.admission.review import Request
from app.kube.asking import once
from tests.support.pod_requests import request_for


class Asking:
    """A check that asks about so many names, each twice."""

    def __init__(self, names: int) -> None:
        self._names = names
        self.asked: list[int] = []

    def check(self, request: Request, plan: Plan) -> Awaitable[None]:
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
    await asking.check(request_for({}), Plan())
    assert asking.asked == [0, 1, 0, 1]
