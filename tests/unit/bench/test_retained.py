"""A review costs the same however many objects the webhook retains: counted in calls and bytes, not in time."""

from __future__ import annotations

import pytest

from app.admission.endpoint import Answer
from bench.figures import Figure
from bench.retained import REVIEWS, Asked, Slope, Webhook, figures_of, measure
from tests.support.costs import cost_of

FEW, MANY = 20, 600


@pytest.fixture(scope="module")
def webhooks() -> list[Webhook]:
    """Without a memo, which would answer what is asked again and again."""
    made = [Webhook(count) for count in (FEW, MANY)]
    for webhook in made:
        webhook.endpoints["mutate"].memo = None
    return made


def answered(webhook: Webhook, asked: Asked, body: bytes) -> Answer:
    """Without a client no review has to wait."""
    try:
        webhook.answer(asked, body).send(None)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    raise AssertionError("a review waits for something")


@pytest.mark.parametrize("asked", REVIEWS, ids=lambda asked: asked.name)
def test_a_review_costs_the_same_beside_many_objects(webhooks: list[Webhook], asked: Asked) -> None:
    body = asked.body(1)
    for webhook in webhooks:
        answer = answered(webhook, asked, body)
        assert (answer.status, answer.decision.allowed) == (200, asked.allowed), answer.decision.message
    few, many = (cost_of(lambda webhook=webhook: answered(webhook, asked, body)) for webhook in webhooks)  # type: ignore[misc]
    assert many.calls == few.calls
    assert many.peak < few.peak + 4 * (MANY - FEW)  # a list of them would take eight bytes for each


def test_every_review_is_measured_in_each_size() -> None:
    slopes = measure(lambda _text: None, sizes=(0, 3), rounds=1)
    assert [slope.asked for slope in slopes] == [*REVIEWS]
    assert all(len(seconds) == 1 and min(seconds) > 0 for slope in slopes for seconds in slope.seconds.values())


def test_figures_are_ratios_and_nanoseconds_of_one_object() -> None:
    slope = Slope(REVIEWS[0], {0: [1e-5, 2e-5], 1000: [2e-5, 3e-5], 2000: [9e-5, 4e-5]})
    ratio, *each = figures_of([slope])
    assert ratio == Figure(ratio.name, 4.0, aim=1.2, better="less")
    assert [round(figure.value) for figure in each] == [10, 15]
    assert [figure.unit for figure in each] == ["ns", "ns"]
