"""How much each name may do."""

from __future__ import annotations

import pytest

from app.kube.rate import Rate


def test_the_rate_recovers_and_idle_names_are_forgotten() -> None:
    now = 100.0
    rate: Rate[str] = Rate(per_second=2.0, burst=2, clock=lambda: now)
    assert [rate.take("a"), rate.take("a")] == [0.0, 0.0]
    assert rate.take("a") == pytest.approx(0.5)
    now += 0.5
    assert rate.take("a") == 0.0
    rate.forget_idle()
    assert len(rate) == 1
    now += 10
    rate.forget_idle()
    assert len(rate) == 0


def test_what_is_more_than_a_burst_is_paid_for_afterwards() -> None:
    now = 100.0
    rate: Rate[str] = Rate(per_second=10.0, burst=20, clock=lambda: now)
    assert rate.take("a", 5.0) == 0.0
    assert rate.take("a", 50.0) == pytest.approx(0.5)
    now += 0.5
    assert rate.take("a", 50.0) == 0.0
    assert rate.take("a", 1.0) == pytest.approx(3.1)
    now += 3.2
    assert rate.take("a", 1.0) == 0.0


def test_a_bounded_number_of_names_is_remembered_and_the_longest_unasked_forgotten() -> None:
    now = 0.0
    rate: Rate[int] = Rate(per_second=0.1, burst=1, names=100, clock=lambda: now)
    assert [rate.take(1), rate.take(1)] == [0.0, 10.0]
    now += 5
    assert rate.take(1) == 5.0
    for name in range(2, 101):
        rate.take(name)
    assert rate.take(1) == 5.0
    for name in range(101, 200):
        rate.take(name)
    assert len(rate) == 100
    assert rate.take(1) == 5.0
    assert rate.take(2) == 0.0
