"""The stand-in for Kueue: who gets quota of a ClusterQueue, who waits, and who makes room."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from app.devtools.kueue.flavors import PodSet
from app.devtools.kueue.queueing import Holder, Verdicts, Waiting, decide

JSON = dict[str, Any]
FLAVORS: dict[str, JSON] = {"plain": {}}
PREEMPTING: JSON = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def queue(cpu: str = "4", **spec: Any) -> JSON:
    flavors = [{"name": "plain", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    return {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}], **spec}


def holder(name: str, cpu: int, priority: int = 0, since: int = 0, *, leaving: bool = False) -> Holder:
    return Holder(("ns", name), priority, f"2026-01-01T00:00:{since:02}Z", {("plain", "cpu"): Decimal(cpu)}, leaving)


def waiting(name: str, cpu: int, priority: int = 0, created: int = 0) -> Waiting:
    pods = PodSet("main", 1, {"cpu": Decimal(cpu)}, {})
    return Waiting(("ns", name), priority, f"2026-01-01T00:00:{created:02}Z", (pods,))


def names(keys: Any) -> list[str]:
    return [name for _, name in keys]


def reasons(verdicts: Verdicts) -> dict[str, str]:
    return {name: reason for (_, name), (reason, _) in verdicts.waiting.items()}


def test_priority_goes_before_creation() -> None:
    jobs = [waiting("old", 2, created=1), waiting("new", 2, created=2), waiting("high", 2, priority=1, created=3)]
    verdicts = decide(queue(), FLAVORS, [], jobs)
    assert names(verdicts.admitted) == ["high", "old"]
    assert reasons(verdicts) == {"new": "WaitingForQuota"}


def test_creation_goes_before_the_name() -> None:
    jobs = [waiting("a", 3, created=2), waiting("b", 3, created=1)]
    assert names(decide(queue(), FLAVORS, [], jobs).admitted) == ["b"]


@pytest.mark.parametrize(
    ("strategy", "admitted", "small"), [("BestEffortFIFO", ["small"], None), ("StrictFIFO", [], "PendingEvaluation")]
)
def test_a_strict_queue_lets_nothing_pass(strategy: str, admitted: list[str], small: str | None) -> None:
    jobs = [waiting("large", 3, created=1), waiting("small", 1, created=2)]
    verdicts = decide(queue(queueingStrategy=strategy), FLAVORS, [holder("h", 2)], jobs)
    assert names(verdicts.admitted) == admitted
    assert reasons(verdicts).get("large") == "WaitingForQuota"
    assert reasons(verdicts).get("small") == small


def test_what_can_never_fit_says_so_and_evicts_nobody() -> None:
    verdicts = decide(queue(**PREEMPTING), FLAVORS, [holder("h", 2)], [waiting("large", 5, priority=9)])
    assert reasons(verdicts) == {"large": "ExceedsMaxQuota"}
    assert not verdicts.evicted


def test_a_lower_priority_makes_room_where_the_queue_says_so() -> None:
    held, jobs = [holder("low", 4)], [waiting("high", 1, priority=1)]
    assert not decide(queue(), FLAVORS, held, jobs).evicted
    verdicts = decide(queue(**PREEMPTING), FLAVORS, held, jobs)
    assert verdicts.evicted == {("ns", "low"): ("ns", "high")}
    assert reasons(verdicts) == {"high": "WaitingForPreemptedWorkloads"}


def test_an_equal_priority_makes_no_room() -> None:
    verdicts = decide(queue(**PREEMPTING), FLAVORS, [holder("h", 4)], [waiting("w", 1)])
    assert (reasons(verdicts), verdicts.evicted) == ({"w": "WaitingForQuota"}, {})


def test_the_least_important_go_first_then_the_newest() -> None:
    held = [holder("mid", 2, 1), holder("old", 1, 0, 1), holder("new", 1, 0, 2)]
    verdicts = decide(queue(**PREEMPTING), FLAVORS, held, [waiting("w", 1, priority=2)])
    assert names(verdicts.evicted) == ["new"]
    verdicts = decide(queue(**PREEMPTING), FLAVORS, held, [waiting("w", 3, priority=2)])
    assert sorted(names(verdicts.evicted)) == ["mid", "new"]


def test_no_more_go_than_need_be() -> None:
    held = [holder("small", 1, 0), holder("large", 3, 1)]
    verdicts = decide(queue(**PREEMPTING), FLAVORS, held, [waiting("w", 3, priority=2)])
    assert names(verdicts.evicted) == ["large"]


def test_who_holds_something_else_stays() -> None:
    other = Holder(("ns", "other"), 0, "2026-01-01T00:00:09Z", {("plain", "memory"): Decimal(1)})
    verdicts = decide(queue(**PREEMPTING), FLAVORS, [holder("h", 4, 1), other], [waiting("w", 1, priority=2)])
    assert names(verdicts.evicted) == ["h"]


def test_nobody_goes_in_vain() -> None:
    held = [holder("low", 1, 0), holder("high", 3, 9)]
    verdicts = decide(queue(**PREEMPTING), FLAVORS, held, [waiting("w", 3, priority=5)])
    assert (reasons(verdicts), verdicts.evicted) == ({"w": "WaitingForQuota"}, {})


def test_who_leaves_is_waited_for_and_no_other_has_to_go() -> None:
    held = [holder("leaving", 2, 9, leaving=True), holder("low", 2, 0)]
    verdicts = decide(queue(**PREEMPTING), FLAVORS, held, [waiting("w", 2, priority=5)])
    assert (reasons(verdicts), verdicts.evicted) == ({"w": "WaitingForPreemptedWorkloads"}, {})


def test_quota_that_will_be_free_is_kept_for_who_waits_for_it() -> None:
    held, jobs = [holder("leaving", 3, leaving=True)], [waiting("first", 4, priority=1), waiting("second", 1)]
    verdicts = decide(queue(), FLAVORS, held, jobs)
    assert names(verdicts.admitted) == []
    assert reasons(verdicts)["first"] == "WaitingForPreemptedWorkloads"


def test_two_waiting_workloads_do_not_evict_for_the_same_room() -> None:
    held = [holder("a", 2, 0, 1), holder("b", 2, 0, 2)]
    jobs = [waiting("first", 2, priority=1, created=1), waiting("second", 2, priority=1, created=2)]
    assert decide(queue(**PREEMPTING), FLAVORS, held, jobs).evicted == {
        ("ns", "b"): ("ns", "first"),
        ("ns", "a"): ("ns", "second"),
    }


def test_quota_is_given_once() -> None:
    verdicts = decide(queue(), FLAVORS, [holder("h", 1)], [waiting(f"w{n}", 1, created=n) for n in range(5)])
    assert names(verdicts.admitted) == ["w0", "w1", "w2"]
