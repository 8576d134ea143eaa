"""What metrics of webhooks come to in view `reviews`."""

from __future__ import annotations

from collections import Counter

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from app.admission import metrics
from app.ui.reviews import Sample, add, figures_of


def sample(at: float, *, allowed: float = 0, denied: float = 0, **buckets: float) -> Sample:
    named = {name.removeprefix("le_").replace("_", "."): count for name, count in buckets.items()}
    return Sample(at, 1, 0, {"allowed": allowed, "denied": denied}, named, ())


def test_the_metrics_of_a_webhook_are_counted() -> None:
    registry = CollectorRegistry()
    registry.register(metrics.ADMISSION_REQUESTS)
    registry.register(metrics.ADMISSION_DURATION)
    metrics.create_series(("pods",))
    before, buckets = Counter[str](), Counter[str]()
    add(generate_latest(registry).decode(), before, buckets)
    metrics.ADMISSION_REQUESTS.labels("pods", "CREATE", "denied").inc(3)
    after = Counter[str]()
    add(generate_latest(registry).decode(), after, Counter())
    assert after["denied"] - before["denied"] == 3
    assert "0.001" in buckets
    assert "+Inf" in buckets


@pytest.mark.parametrize("text", ["<html>", 'admission_requests_total{decision="', "\x00\xff", 'a{b="c"} x\n', "{}{}{"])
def test_what_is_no_text_of_metrics_counts_as_nothing(text: str) -> None:
    decisions = Counter[str]()
    add(text, decisions, Counter())
    assert not decisions


def test_rates_are_those_between_two_looks_and_never_negative() -> None:
    figures = figures_of([sample(0, allowed=10), sample(5, allowed=20, denied=1), sample(10, allowed=0, denied=1)])
    assert {rate.decision: rate.per_second for rate in figures.rates} == {"allowed": (2.0, 0.0), "denied": (0.2, 0.0)}
    assert figures.totals == {"allowed": 0, "denied": 1}


def test_one_look_has_no_rate() -> None:
    (allowed, _) = figures_of([sample(0, allowed=10)]).rates
    assert (allowed.per_second, allowed.points) == ((), "")


def test_each_bucket_counts_what_those_below_do_not() -> None:
    buckets = {"le_0_001": 6, "le_0_0025": 9, "le_5_0": 10, "le_+Inf": 10}
    shown = figures_of([sample(0, **buckets)]).durations
    assert [(bucket.seconds, bucket.count, bucket.share) for bucket in shown] == [
        ("0.001", 6, 60),
        ("0.0025", 3, 30),
        ("5.0", 1, 10),
    ]


def test_without_reviews_there_are_no_durations() -> None:
    assert figures_of([sample(0, **{"le_0_001": 0, "le_+Inf": 0})]).durations == ()
