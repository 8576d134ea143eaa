"""When a claim may be written again."""

from __future__ import annotations

import math

from app.claims.publishing.controller import BUDGET, ERASED, REFUSED, REJECTED
from app.claims.publishing.pauses import Growth, Pauses
from app.claims.publishing.reporting import STATUS, missing_rule
from tests.support.clock import Clock


def test_rewrites_have_a_budget_and_then_growing_pauses() -> None:
    clock = Clock(1000.0)
    erased = Pauses[str](ERASED, quiet=600.0, clock=clock, random=lambda: 0.999)
    pauses = []
    for _ in range(BUDGET + 12):
        erased.failed("u")
        pauses.append(erased.wait(["u"]))
        clock.now += pauses[-1]
        assert erased.wait(["u"]) == 0.0
    assert max(pauses[:BUDGET]) < 1.0
    beyond = [round(pause, 6) for pause in pauses[BUDGET:]]
    assert beyond == sorted(beyond)
    assert beyond[-1] > 250
    assert erased.tries("u") == BUDGET + 12
    clock.now += 1000
    erased.failed("u")
    assert erased.wait(["u"]) < 1.0, "after a quiet time the budget is whole again"
    assert erased.tries("u") == 0


def test_a_rewrite_that_is_due_later_stays_due() -> None:
    clock = Clock(1000.0)
    erased = Pauses[str](ERASED, clock=clock, random=lambda: 0.5)
    erased.failed("u")
    first = erased.wait(["u"])
    clock.now += first / 2
    erased.failed("u")
    assert erased.wait(["u"]) == first / 2
    assert erased.tries("u") == 0


def test_pauses_are_random_between_the_floor_and_the_limit() -> None:
    for random, seconds in ((0.0, 50.0), (0.2, 50.0), (0.5, 50.0), (0.75, 75.0)):
        pauses = Pauses[str](Growth(100.0, 400.0, floor=0.5), clock=Clock(1000.0), random=lambda random=random: random)
        pauses.failed("a")
        assert pauses.left("a") == seconds
    pauses = Pauses[str](Growth(100.0, 400.0), clock=Clock(1000.0), random=lambda: 0.25)
    pauses.failed("a")
    assert pauses.left("a") == 25.0


def test_with_the_floor_at_the_limit_a_time_is_exact_and_begins_once() -> None:
    clock = Clock(1000.0)
    repairs = Pauses[str](Growth(60.0, 60.0, floor=1.0), clock=clock)
    repairs.failed("d")
    clock.now += 59.9
    repairs.failed("d")
    assert 0 < repairs.left("d") < 0.2
    clock.now += 0.1
    repairs.failed("d")
    assert repairs.left("d") == 0.0


def test_refusals_that_come_together_count_once_and_pauses_grow() -> None:
    clock = Clock(1000.0)
    refused = Pauses[str](REFUSED, hold=0.5, clock=clock, random=lambda: 0.0)
    pauses = []
    for _ in range(12):
        assert refused.wait(["a"]) == 0.0
        for _ in range(16):
            refused.failed("a")
        pauses.append(refused.wait(["a"]))
        assert refused.wait(["b"]) == 0.0, "another driver does not wait"
        clock.now += pauses[-1]
    assert pauses == sorted(pauses)
    assert pauses[0] < 1.0
    assert pauses[-1] == 150.0
    assert refused.recent(300.0) == ["a"]
    assert refused.passed("a", "b")
    assert not refused.passed("a")
    assert refused.recent(300.0) == []


def test_what_nothing_writes_any_more_is_no_problem() -> None:
    """The claims for which a right was missing may be gone before the right is there."""
    clock = Clock(1000.0)
    refused = Pauses[str](REFUSED, hold=0.5, clock=clock, random=lambda: 0.5)
    for _ in range(12):
        refused.failed("a")
        clock.now += refused.wait(["a"])
        assert refused.recent(300.0) == ["a"]
        assert refused.wait(["a"]) == 0.0
    clock.now += 301
    assert refused.recent(300.0) == []
    refused.failed("a")
    assert refused.recent(300.0) == ["a"]


def test_one_write_tries_while_the_others_wait() -> None:
    clock = Clock(1000.0)
    refused = Pauses[str](REFUSED, hold=0.5, clock=clock, random=lambda: 0.0)
    refused.failed(STATUS)
    clock.now += 10
    assert refused.wait([STATUS, "a"]) == 0.0
    assert refused.wait([STATUS, "b"]) > 0.0
    assert refused.wait(["b"]) == 0.0


def test_those_that_wait_do_not_all_come_at_the_same_moment() -> None:
    clock, randoms = Clock(1000.0), iter((0.5, 0.0, 0.9))
    refused = Pauses[str](REFUSED, hold=0.5, clock=clock, random=lambda: next(randoms))
    refused.failed("a")
    assert (refused.wait(["a"]), refused.wait(["a"])) == (0.5, 0.95)


def test_of_many_keys_the_oldest_begin_anew() -> None:
    pauses = Pauses[int](REJECTED, most=3, clock=Clock(1000.0))
    for key in range(5):
        pauses.failed(key)
    assert list(pauses) == [2, 3, 4]


def test_the_rule_that_is_missing() -> None:
    assert missing_rule(STATUS, "x") == "apiGroups [resource.k8s.io], resources [resourceclaims/status], verbs [patch]"
    assert missing_rule("vf.example.com", "arbitrary-node:patch").endswith(
        "resources [resourceclaims/driver], verbs [arbitrary-node:patch], resourceNames [vf.example.com]"
    )


def test_what_is_rejected_waits_for_the_claim_or_is_tried_again_after_growing_pauses() -> None:
    clock = Clock(1000.0)
    rejected = Pauses[str](REJECTED, clock=clock, random=lambda: 0.999)
    assert rejected.wait(["c"], ("1", "data")) == 0.0
    pauses = []
    for _ in range(8):
        rejected.failed("c", ("1", "data"))
        pauses.append(rejected.wait(["c"], ("1", "data")))
        clock.now += pauses[-1]
        assert rejected.wait(["c"], ("1", "data")) == 0.0
    assert pauses == sorted(pauses)
    assert (pauses[0] >= 10, 500 < pauses[-1] <= 600) == (True, True)
    rejected.failed("c", ("1", "data"), lasting=True)
    clock.now += 1e9
    assert rejected.wait(["c"], ("1", "data")) == math.inf
    assert rejected.wait(["c"], ("2", "data")) == 0.0, "the claim has changed"
    assert rejected.wait(["c"], ("1", "other data")) == 0.0
    rejected.passed("c")
    assert rejected.wait(["c"], ("1", "data")) == 0.0


def test_of_two_answers_to_tries_under_way_together_the_last_says_whether_it_lasts() -> None:
    clock = Clock(1000.0)
    for lasting in (True, False):
        rejected = Pauses[str](REJECTED, clock=clock, random=lambda: 0.999)
        rejected.failed("c", "1", lasting=not lasting)
        rejected.failed("c", "1", lasting=lasting)
        assert (rejected.wait(["c"], "1") == math.inf) == lasting


def test_what_is_rejected_waits_for_ten_seconds_at_least() -> None:
    rejected = Pauses[str](REJECTED, clock=Clock(1000.0), random=lambda: 0.0)
    for _ in range(8):
        rejected.failed("c")
        assert rejected.left("c") == 10.0
        rejected.passed("c")


def test_the_quiet_time_begins_when_the_pause_is_over() -> None:
    clock = Clock(1000.0)
    erased = Pauses[str](ERASED, quiet=600.0, clock=clock, random=lambda: 0.5)
    erased.failed("u")
    clock.now += 500
    assert erased.wait(["u"]) == 0.0
    clock.now += 101
    erased.failed("u")
    assert erased.tries("u") == 0, "600 s after the pause that was over 500 s before the try"
