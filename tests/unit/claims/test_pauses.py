"""When a claim may be written again."""

from __future__ import annotations

import math

from app.claims.model import DeviceKey
from app.claims.publishing.controller import Waits
from app.claims.publishing.refusals import STATUS, Refusals, missing_rule
from app.claims.publishing.writing import BUDGET, Rejections, Rewrites


class Clock:
    """A clock that is moved by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_rewrites_have_a_budget_and_then_growing_pauses() -> None:
    clock = Clock()
    rewrites = Rewrites(clock=clock, random=lambda: 0.999)
    pauses = []
    for _ in range(BUDGET + 12):
        pauses.append(rewrites.pause("u"))
        clock.now += pauses[-1]
        assert rewrites.pause("u") == 0.0
    assert max(pauses[:BUDGET]) < 1.0
    beyond = pauses[BUDGET:]
    assert [round(one, 6) for one in beyond] == sorted(round(one, 6) for one in beyond)
    assert beyond[-1] > 250
    assert rewrites.count("u") == BUDGET + 12
    clock.now += 1000
    assert rewrites.pause("u") < 1.0, "after a quiet time the budget is whole again"


def test_a_rewrite_that_is_due_later_stays_due() -> None:
    clock = Clock()
    rewrites = Rewrites(clock=clock, random=lambda: 0.5)
    first = rewrites.pause("u")
    clock.now += first / 2
    assert rewrites.pause("u") == first / 2
    assert rewrites.count("u") == 0


def test_refusals_that_come_together_count_once_and_pauses_grow() -> None:
    clock = Clock()
    refusals = Refusals(clock=clock, random=lambda: 0.0)
    pauses = []
    for _ in range(12):
        assert refusals.pause(["a"]) == 0.0
        for _ in range(16):
            refusals.refused(["a"])
        pauses.append(refusals.pause(["a"]))
        assert refusals.pause(["b"]) == 0.0, "another driver does not wait"
        clock.now += pauses[-1]
    assert pauses == sorted(pauses)
    assert pauses[0] < 1.0
    assert pauses[-1] == 150.0
    assert refusals.names == ["a"]
    assert refusals.granted(["a", "b"])
    assert not refusals.granted(["a"])
    assert refusals.names == []


def test_what_nothing_writes_any_more_is_no_problem() -> None:
    """The claims for which a right was missing may be gone before the right is there."""
    clock = Clock()
    refusals = Refusals(clock=clock, random=lambda: 0.5)
    for _ in range(12):
        refusals.refused(["a"])
        clock.now += refusals.pause(["a"])
        assert refusals.names == ["a"]
        assert refusals.pause(["a"]) == 0.0
    clock.now += 301
    assert refusals.names == []
    refusals.refused(["a"])
    assert refusals.names == ["a"]


def test_one_write_tries_while_the_others_wait() -> None:
    clock = Clock()
    refusals = Refusals(clock=clock, random=lambda: 0.0)
    refusals.refused([STATUS])
    clock.now += 10
    assert refusals.pause(["a"]) == 0.0
    assert refusals.pause(["b"]) > 0.0


def test_the_rule_that_is_missing() -> None:
    assert missing_rule(STATUS, "x") == "apiGroups [resource.k8s.io], resources [resourceclaims/status], verbs [patch]"
    assert missing_rule("vf.example.com", "arbitrary-node:patch").endswith(
        "resources [resourceclaims/driver], verbs [arbitrary-node:patch], resourceNames [vf.example.com]"
    )


def test_waits() -> None:
    clock = Clock()
    waits, device, pod = Waits(clock), DeviceKey("dra.net", "n1", "d"), ("default", "p")
    assert waits.waited(pod, "u", device, 60, over=False) == 0.0
    clock.now += 20
    assert waits.waited(pod, "u", device, 60, over=False) == 20.0
    assert waits.ends(pod) == [40.0]
    assert waits.waited(pod, "another", device, 60, over=False) == 0.0
    assert waits.waited(pod, "u", device, 60, over=True) == 0.0
    assert waits.ends(pod) == [60.0]
    waits.forget(pod)
    assert waits.ends(pod) == []


def test_what_is_rejected_waits_for_the_claim_or_is_tried_again_after_growing_pauses() -> None:
    clock = Clock()
    rejections = Rejections(clock=clock, random=lambda: 0.999)
    claim = ("ns", "c")
    assert rejections.pause(claim, "1", "data") == 0.0
    pauses = []
    for _ in range(8):
        rejections.rejected(claim, "1", "data", lasting=False)
        pauses.append(rejections.pause(claim, "1", "data"))
        clock.now += pauses[-1]
        assert rejections.pause(claim, "1", "data") == 0.0
    assert pauses == sorted(pauses)
    assert (pauses[0] >= 10, 500 < pauses[-1] <= 600) == (True, True)
    rejections.rejected(claim, "1", "data", lasting=True)
    clock.now += 1e9
    assert rejections.pause(claim, "1", "data") == math.inf
    assert rejections.pause(claim, "2", "data") == 0.0, "the claim has changed"
    assert rejections.pause(claim, "1", "other data") == 0.0
    rejections.forget(claim)
    assert rejections.pause(claim, "1", "data") == 0.0
