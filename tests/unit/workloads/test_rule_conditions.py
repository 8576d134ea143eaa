"""Conditions `Matched` and `Running` of rules, and the standing of a companion that the second one counts."""

from __future__ import annotations

from sys import intern
from typing import Any

import pytest

from app.workloads.companions.marks import companion_of, standing_of
from app.workloads.controller.caches import Listeners, WorkloadCaches
from app.workloads.controller.statuses import matched_condition, rule_status, running_condition, timed
from app.workloads.model import Expression, ObjectKey, RuleKind, Term, Waiting
from tests.support.kits import offline_kit
from tests.support.workloads import T1, pod, rule, workload

JSON = dict[str, Any]
SCHEDULED = {"type": "PodScheduled", "status": "True"}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
NODE = {"nodeName": "dpu1"}


def ready(status: str) -> JSON:
    return {"type": "Ready", "status": status}


def waiting(reason: str) -> JSON:
    return {"name": "c", "state": {"waiting": {"reason": reason}}}


@pytest.mark.parametrize(
    ("spec", "status", "standing"),
    [
        ({}, {}, "Pending"),
        ({}, {"phase": "Pending"}, "Pending"),
        ({}, {"phase": "Pending", "conditions": [UNSCHEDULABLE]}, "Unschedulable"),
        ({}, {"conditions": [{**UNSCHEDULABLE, "reason": "SchedulingGated"}]}, "SchedulingGated"),
        (NODE, {"phase": "Pending", "conditions": [SCHEDULED]}, "ContainerCreating"),
        (NODE, {"phase": "Pending", "containerStatuses": [waiting("ImagePullBackOff")]}, "ImagePullBackOff"),
        (
            NODE,
            {
                "phase": "Pending",
                "initContainerStatuses": [waiting("CreateContainerConfigError")],
                "containerStatuses": [waiting("PodInitializing")],
            },
            "CreateContainerConfigError",
        ),
        (NODE, {"phase": "Running", "conditions": [SCHEDULED, ready("True")]}, ""),
        (NODE, {"phase": "Running", "conditions": [ready("False")]}, "NotReady"),
        (
            NODE,
            {"phase": "Running", "conditions": [ready("False")], "containerStatuses": [waiting("CrashLoopBackOff")]},
            "CrashLoopBackOff",
        ),
        (NODE, {"phase": "Succeeded"}, "Succeeded"),
        (NODE, {"phase": "Failed"}, "Failed"),
        (NODE, {"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (NODE, {"phase": "Unknown", "reason": "NodeLost"}, "NodeLost"),
        (NODE, {"phase": "Failed", "reason": "x" * 100}, "x" * 63 + "…"),
    ],
)
def test_what_keeps_a_companion_from_running(spec: JSON, status: JSON, standing: str) -> None:
    found = pod("one", 1) | {"spec": spec, "status": status}
    assert standing_of(found) == standing
    assert companion_of(found).standing is intern(standing), "one string for all"


SOUND: Term = (Expression("state.nodeName", "Exists"),)
DOTTED: Term = (*SOUND, Expression("state.extra.labels.app.kubernetes.io", "In", frozenset({"web"})))
WHY = 'spec.workloadTerms[0].matchExpressions[1].key: quote labels with dots: state.extra.labels."app.kubernetes.io"'


@pytest.mark.parametrize(
    ("count", "terms", "status", "reason", "message"),
    [
        (1, [SOUND], "True", "WorkloadsMatch", "1 workload matches"),
        (3, [DOTTED, SOUND], "True", "WorkloadsMatch", "3 workloads match"),
        (0, [SOUND], "False", "NoWorkloadMatches", "no workload matches"),
        (0, [DOTTED], "False", "ImpossibleKey", f"no workload can match: {WHY}"),
        (
            0,
            [DOTTED, SOUND],
            "False",
            "NoWorkloadMatches",
            f"no workload matches, and this term holds for none: {WHY}",
        ),
        (0, [], "Unknown", "InvalidRule", "the rule cannot be used"),
    ],
)
def test_what_a_rule_matches(count: int, terms: list[Term], status: str, reason: str, message: str) -> None:
    assert matched_condition(count, terms) == ("Matched", status, reason, message)


@pytest.mark.parametrize(
    ("standings", "status", "reason", "message"),
    [
        ({}, "False", "NoCompanion", "there are no companions to run"),
        ({"": 3, "Pending": 0}, "True", "CompanionsRun", "3 of 3 companions run"),
        ({"Unschedulable": 1}, "False", "Unschedulable", "0 of 1 companions run: 1 Unschedulable"),
        (
            {"": 40, "NotReady": 1, "Unschedulable": 12, "ImagePullBackOff": 1},
            "False",
            "Unschedulable",
            "40 of 54 companions run: 12 Unschedulable, 1 ImagePullBackOff, 1 NotReady",
        ),
    ],
)
def test_how_many_companions_run(standings: dict[str, int], status: str, reason: str, message: str) -> None:
    assert running_condition(standings) == ("Running", status, reason, message)


def test_the_message_names_few_reasons_however_many_there_are() -> None:
    *_, message = running_condition({f"{'x' * 60}{number:03}": number for number in range(1, 200)})
    assert message.count(",") == 8
    assert len(message) < 1024
    assert message.endswith(f", {sum(range(1, 192))} for other reasons")


SPLIT: Term = (*SOUND, Expression("state.nodeName", "DoesNotExist"))


@pytest.mark.parametrize("kind", ["tenant", "admin"])
def test_a_rule_that_can_never_match_says_so_and_its_result_stays(kind: RuleKind) -> None:
    """In the column MESSAGE; `result` is a word of the Workload API, and nothing has failed."""
    status = rule_status(kind, generation=1, terms=[SPLIT], matched=0, standings={}, broken=(), findings=())
    where = "spec.workloadTerms[0].matchExpressions[1]"
    text = f"no workload can match: {where}: contradicts matchExpressions[0]: no state.nodeName fulfills both"
    assert (status["result"], status["message"]) == ("success", text)
    assert status["conditions"][1]["message"] == text
    quiet = rule_status(kind, generation=1, terms=[SPLIT, SOUND], matched=0, standings={}, broken=(), findings=())
    assert (quiet["result"], quiet["message"]) == ("success", ""), "a workload may come"


def test_a_status_says_what_is_missing_and_keeps_each_time() -> None:
    broken: tuple[str, ...] = ()
    status = rule_status(
        "tenant",
        generation=2,
        terms=[SOUND],
        matched=6,
        standings={"": 1, "Unschedulable": 2},
        lacking={"NoNode": 2},
        broken=broken,
        findings=(),
    )
    assert (status["result"], status["created"], status["running"]) == ("success", 3, 1)
    assert [one["type"] for one in status["conditions"]] == ["Ready", "Matched", "Running"]
    assert {one["observedGeneration"] for one in status["conditions"]} == {2}
    text = "1 of 6 companions run: 2 NoNode, 2 Unschedulable, 1 NotCreated"
    assert status["conditions"][2]["message"] == text
    before = timed(status, {}, now="t1")
    assert before is not None
    good = rule_status("tenant", generation=2, terms=[SOUND], matched=6, standings={"": 6}, broken=broken, findings=())
    after = timed(good, before, now="t2")
    assert after is not None
    assert [one["lastTransitionTime"] for one in after["conditions"]] == ["t2", "t1", "t2"]
    assert timed(good, after, now="t3") is None


def test_the_caches_count_what_runs_and_tell_it_once() -> None:
    """A Pod that only proceeds costs no reconcile, and companions that have to go do not count."""
    caches, told = WorkloadCaches(offline_kit(), {}), list[tuple[str, ObjectKey]]()
    caches.listeners = Listeners(
        workload=lambda key: told.append(("workload", key)),
        rule_status=lambda key: told.append(("status", key)),
        rule_running=lambda key: told.append(("running", key)),
    )
    key = (T1, "r")
    for name in ("u1", "u2"):
        caches.workloads.upsert(_in_tenant1(workload(name)))
    caches.tenant_rules.upsert(_in_tenant1(rule("r")))
    made = [companion("u1"), companion("u2")]
    for one in made:
        caches.companions.upsert(one)
    assert caches.standings(key) == {"Pending": 2}
    # Why one has none counts; what is said of one that has its companion does not.
    for name in ("u1", "u3"):
        caches.findings.put((T1, f"workload-{name}"), {key: Waiting("Queued", "later")})
    assert caches.lacking(key) == {"Queued": 1}
    told.clear()
    started = {**made[0], "spec": NODE, "status": {"phase": "Running", "conditions": [ready("True")]}}
    caches.companions.upsert(started)
    assert told == [("running", key)]
    assert caches.standings(key) == {"": 1, "Pending": 1}
    caches.companions.upsert({**started, "status": {**started["status"], "podIP": "10.0.0.1"}})
    assert told == [("running", key)]
    caches.tenant_rules.upsert(_in_tenant1(rule("r", match=("metadata.id", ["u1"]))))
    assert (caches.standings(key), caches.removing(key)) == ({"": 1}, 1)
    for one in made:
        caches.companions.remove(T1, one["metadata"]["name"])
    assert (caches.standings(key), caches._standings) == ({}, {})


def companion(workload_id: str) -> JSON:
    made = pod(f"r-{workload_id}", 1)
    made["metadata"]["annotations"]["berth.dev/workload"] = f"{T1}/{workload_id}"
    return made | {"spec": {}}


def _in_tenant1(obj: JSON) -> JSON:
    return {**obj, "metadata": {**obj["metadata"], "namespace": T1, "generation": 1}}
