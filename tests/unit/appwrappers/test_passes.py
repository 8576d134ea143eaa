"""What a pass over an AppWrapper, or over its Workload, asks for on its way to the next step."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from app.appwrappers.controller.observing import Deletion, Eviction
from app.appwrappers.controller.phases import next_step
from app.appwrappers.controller.stored import AppWrapper, stored_app_wrapper
from app.appwrappers.kueue.stored import stored_workload
from app.appwrappers.kueue.workloads import PermanentError, pod_set_infos
from app.appwrappers.model import FINALIZER, PREEMPTED, QUEUE_NAME, RESOURCES_DEPLOYED
from app.appwrappers.options import FaultTolerance, read_options
from app.kube.conditions import condition
from tests.support.appwrappers import app_wrapper, pod

JSON = dict[str, Any]
T = TypeVar("T")
NOW = datetime(2026, 11, 29, tzinfo=UTC)
PREEMPTION = Eviction("Preempted", "by another")


def asked(steps: Generator[str, Any, T], answers: Mapping[str, object]) -> tuple[list[str], T]:
    """What was asked for, in turn, and what came of it."""
    requests = list[str]()
    answer: object = None
    while True:
        try:
            requests.append(steps.send(answer))
        except StopIteration as end:
            return requests, end.value
        answer = answers[requests[-1]]


def stored(phase: str, *, queue: str = "", deleting: bool = False) -> AppWrapper:
    obj = app_wrapper("a", pod("p"), suspend=True)
    obj["metadata"] |= {"namespace": "ns", "uid": "u", "resourceVersion": "1", "finalizers": [FINALIZER]}
    obj["metadata"]["labels"] = {QUEUE_NAME: queue} if queue else {}
    if deleting:
        obj["metadata"]["deletionTimestamp"] = "2026-11-29T00:00:00Z"
    component = {"name": "p", "kind": "Pod", "apiVersion": "v1", "podSets": [{"replicas": 1, "path": "template"}]}
    obj["status"] = {
        "phase": phase,
        "componentStatus": [component],
        "conditions": [{"type": RESOURCES_DEPLOYED, "status": "True", "reason": "Resuming"}],
    }
    return stored_app_wrapper(obj)


@pytest.mark.parametrize("phase", ["Resuming", "Running", "Resetting"])
def test_why_it_is_suspended_is_asked_of_one_with_a_queue(phase: str) -> None:
    options = read_options({}, FaultTolerance())
    requests, step = asked(next_step(stored(phase, queue="q"), options, NOW), {"eviction": PREEMPTION})
    assert requests == ["eviction"]
    assert step.status["phase"] == "Suspending"
    assert condition(step.status, PREEMPTED)["reason"] == "Preempted"
    requests, step = asked(next_step(stored(phase), options, NOW), {})
    assert requests == []
    assert not condition(step.status, PREEMPTED)


def test_of_one_that_is_being_deleted_it_does_not_matter() -> None:
    wrapper = stored("Running", queue="q", deleting=True)
    steps = next_step(wrapper, read_options({}, FaultTolerance()), NOW)
    requests, step = asked(steps, {"delete": Deletion({0: ""})})
    assert (requests, step.action) == (["delete"], "release")


def test_a_flavor_is_asked_for_once_for_all_pod_sets() -> None:
    assignments = [{"name": name, "flavors": {"cpu": "a", "memory": "b"}} for name in ("main", "other")]
    workload: JSON = {
        "metadata": {"name": "w", "namespace": "ns", "uid": "u-w", "resourceVersion": "1"},
        "spec": {"podSets": [{"name": name, "count": 1} for name in ("main", "other")]},
        "status": {"admission": {"clusterQueue": "c", "podSetAssignments": assignments}},
    }
    flavors = {"a": {"nodeLabels": {"zone": "1"}}, "b": {"tolerations": [{"operator": "Exists"}]}}
    requests, infos = asked(pod_set_infos(stored_workload(workload)), flavors)
    assert requests == ["a", "b"]
    assert [(info["nodeSelector"], info["tolerations"]) for info in infos] == [
        ({"zone": "1"}, [{"operator": "Exists"}])
    ] * 2
    assignments.pop()
    with pytest.raises(PermanentError, match="expecting 2 podset, got 1"):
        next(pod_set_infos(stored_workload(workload)))
