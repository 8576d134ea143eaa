"""The stand-in for Kueue: what one pass makes of the statuses of Workloads and queues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.devtools.kueue.queues import World, cluster_queue_status, local_queue_status
from app.devtools.kueue.scheduling import plan
from app.kube.conditions import condition

JSON = dict[str, Any]
NOW = datetime(2026, 1, 2, tzinfo=UTC)
LATER = "2026-01-02T00:01:00Z"
KEY = ("ns", "w")
FLAVOR: JSON = {"metadata": {"name": "plain"}, "spec": {}}


def cluster_queue(**spec: Any) -> JSON:
    flavors = [{"name": "plain", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    spec = {"resourceGroups": groups, "namespaceSelector": {}, **spec}
    return {"metadata": {"name": "cq", "uid": "1", "generation": 3}, "spec": spec}


def local_queue(**spec: Any) -> JSON:
    return {"metadata": {"namespace": "ns", "name": "lq", "uid": "2"}, "spec": {"clusterQueue": "cq", **spec}}


def said(kind: str, status: str = "True", reason: str = "Any", message: str = "") -> JSON:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def workload(name: str = "w", cpu: str = "1", count: int = 2, *, status: JSON | None = None, **spec: Any) -> JSON:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    pod_sets = [{"name": "main", "count": count, "template": {"spec": {"containers": containers}}}]
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"podSets": pod_sets, "queueName": "lq", "active": True, **spec},
        "status": status or {},
    }


def admitted(name: str = "w", count: int = 2, *conditions: JSON, status: JSON | None = None, **spec: Any) -> JSON:
    assignment = {"name": "main", "flavors": {"cpu": "plain"}, "resourceUsage": {"cpu": str(count)}, "count": count}
    said_all = [said("QuotaReserved", reason="QuotaReserved"), said("Admitted", reason="Admitted"), *conditions]
    known = {"conditions": said_all, "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]}}
    return workload(name, count=count, status={**known, **(status or {})}, **spec)


def world(*workloads: JSON, cq: JSON | None = None, lq: JSON | None = None, **changed: Any) -> World:
    cq, lq = cq or cluster_queue(), lq or local_queue()
    given: JSON = {
        "local_queues": {("ns", "lq"): lq},
        "cluster_queues": {"cq": cq},
        "flavors": {"plain": FLAVOR},
        "namespaces": {"ns": {"team": "a"}},
    }
    return World(list(workloads), **{**given, **changed})


def brief(status: JSON, kind: str) -> tuple[str | None, str | None, str | None]:
    found = condition(status, kind)
    return found.get("status"), found.get("reason"), found.get("message")


def after(one: JSON, *others: JSON, **changed: Any) -> JSON:
    """The new status of a Workload; it has one."""
    return plan(world(one, *others, **changed), NOW)[KEY]


def test_a_workload_is_admitted() -> None:
    status = after(workload(cpu="500m"))
    assert status["admission"] == {
        "clusterQueue": "cq",
        "podSetAssignments": [{"name": "main", "flavors": {"cpu": "plain"}, "resourceUsage": {"cpu": "1"}, "count": 2}],
    }
    assert brief(status, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert brief(status, "Admitted") == ("True", "Admitted", "The workload is admitted")
    assert condition(status, "Admitted")["observedGeneration"] == 1
    assert not plan(world(workload(status=status)), NOW)


def test_one_that_does_not_fit_waits_and_says_for_what() -> None:
    status = after(workload(), admitted("other", 3))
    assert brief(status, "QuotaReserved")[:2] == ("False", "WaitingForQuota")
    assert "2 requested, 4 in all" in str(brief(status, "QuotaReserved")[2])
    assert "admission" not in status
    assert not plan(world(workload(status=status), admitted("other", 3)), NOW)


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        ({"local_queues": {}}, "Misconfigured", "LocalQueue lq doesn't exist"),
        ({"lq": local_queue(stopPolicy="Hold")}, "Suspended", "LocalQueue lq is inactive"),
        ({"cluster_queues": {}}, "Misconfigured", "ClusterQueue cq doesn't exist"),
        ({"cq": cluster_queue(stopPolicy="Hold")}, "Suspended", "ClusterQueue cq is inactive"),
        ({"flavors": {}}, "Suspended", "ClusterQueue cq is inactive"),
        (
            {"cq": cluster_queue(namespaceSelector=None)},
            "Misconfigured",
            "workload namespace doesn't match ClusterQueue selector",
        ),
        (
            {"cq": cluster_queue(namespaceSelector={"matchLabels": {"team": "b"}})},
            "Misconfigured",
            "workload namespace doesn't match ClusterQueue selector",
        ),
    ],
)
def test_what_keeps_a_workload_out_of_its_queue(change: JSON, reason: str, message: str) -> None:
    assert brief(after(workload(), **change), "QuotaReserved") == ("False", reason, message)


def test_a_namespace_that_is_selected() -> None:
    selecting = cluster_queue(namespaceSelector={"matchLabels": {"team": "a"}})
    assert brief(after(workload(), cq=selecting), "Admitted")[0] == "True"


def test_a_gate_holds_a_workload_back() -> None:
    one = workload()
    one["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    expected = ("False", "AdmissionGated", "Admission is gated by: example.com/gate")
    assert brief(after(one), "QuotaReserved") == expected


def test_requests_that_cannot_be_read_keep_no_other_waiting() -> None:
    statuses = plan(world(workload("bad", cpu="much"), workload()), NOW)
    assert brief(statuses["ns", "bad"], "QuotaReserved")[:2] == ("False", "Misconfigured")
    assert brief(statuses[KEY], "Admitted")[0] == "True"


def test_a_boost_counts_as_priority() -> None:
    boosted = workload(count=3)
    boosted["metadata"]["annotations"] = {"kueue.x-k8s.io/priority-boost": "2"}
    statuses = plan(world(workload("other", count=3, priority=1), boosted), NOW)
    assert brief(statuses[KEY], "Admitted")[0] == "True"


def test_preemption_is_said_on_who_goes_and_on_who_waits() -> None:
    preempting = cluster_queue(preemption={"withinClusterQueue": "LowerPriority"})
    high = workload("high", priority=5)
    high["metadata"]["labels"] = {"kueue.x-k8s.io/job-uid": "job"}
    statuses = plan(world(admitted(count=4), high, cq=preempting), NOW)
    message = (
        "Preempted to accommodate a workload (UID: uid-high, JobUID: job) due to prioritization in the ClusterQueue"
    )
    assert brief(statuses[KEY], "Evicted") == ("True", "Preempted", message)
    assert brief(statuses[KEY], "Preempted") == ("True", "InClusterQueue", message)
    assert brief(statuses[KEY], "QuotaReserved")[0] == "True"
    assert brief(statuses["ns", "high"], "QuotaReserved")[:2] == ("False", "WaitingForPreemptedWorkloads")
    evicted = {**admitted(count=4), "status": statuses[KEY]}
    waiting = {**high, "status": statuses["ns", "high"]}
    assert not plan(world(evicted, waiting, cq=preempting), NOW)


def test_once_its_owner_has_cleared_the_admission_it_is_queued_again() -> None:
    evicted = [said("Evicted", reason="Preempted", message="why"), said("Preempted", reason="InClusterQueue")]
    given_back = admitted("w", 4, *evicted)
    given_back["status"]["conditions"][0] = said("QuotaReserved", "False", "Pending")
    high = workload("high", count=1)
    high["spec"]["priority"] = 5
    statuses = plan(world(given_back, high), NOW)
    assert brief(statuses["ns", "high"], "Admitted")[0] == "True"
    assert "admission" not in statuses[KEY]
    assert brief(statuses[KEY], "Admitted") == ("False", "NoReservation", "The workload has no reservation")
    assert brief(statuses[KEY], "Evicted")[0] == "True"
    again = plan(world({**given_back, "status": statuses[KEY]}), NOW)[KEY]
    assert brief(again, "Evicted") == ("False", "QuotaReserved", "Previously: why")
    assert brief(again, "Preempted")[0] == "False"
    assert brief(again, "Admitted")[0] == "True"


def test_an_admission_is_cleared_before_another_follows() -> None:
    given_back = admitted()
    given_back["status"]["conditions"][0] = said("QuotaReserved", "False", "Pending")
    status = after(given_back)
    assert "admission" not in status
    assert brief(status, "QuotaReserved")[:2] == ("False", "PendingEvaluation")


def test_a_workload_that_is_deactivated_is_evicted_and_keeps_its_quota_until_it_has_stopped() -> None:
    one = admitted(active=False, status={"requeueState": {"count": 1}})
    status = after(one)
    assert brief(status, "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert brief(status, "QuotaReserved")[0] == "True"
    assert "requeueState" not in status
    assert brief(after(workload(active=False)), "QuotaReserved")[:2] == ("False", "Deactivated")


@pytest.mark.parametrize(
    ("reason", "because"),
    [
        ("Deactivated", "Reactivated"),
        ("DeactivatedDueToRequeuingLimitExceeded", "Reactivated"),
        ("ClusterQueueStopped", "ClusterQueueRestarted"),
        ("LocalQueueStopped", "LocalQueueRestarted"),
        ("PodsReadyTimeout", "BackoffFinished"),
    ],
)
def test_one_that_was_taken_out_of_its_queue_is_back_when_the_cause_is_gone(reason: str, because: str) -> None:
    given_back = [said("QuotaReserved", "False", "Pending"), said("Requeued", "False", reason)]
    status = after(workload(status={"conditions": given_back}))
    assert brief(status, "Requeued")[:2] == ("True", because)
    assert brief(after(workload(status=status)), "Admitted")[0] == "True"


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("ClusterQueueStopped", {"cq": cluster_queue(stopPolicy="Hold")}),
        ("LocalQueueStopped", {"lq": local_queue(stopPolicy="HoldAndDrain")}),
        ("SomethingElse", {}),
    ],
)
def test_one_that_was_taken_out_of_its_queue_stays_out(reason: str, change: JSON) -> None:
    given_back = [said("QuotaReserved", "False", "Pending"), said("Requeued", "False", reason)]
    assert not plan(world(workload(status={"conditions": given_back}), **change), NOW)


def test_it_is_not_queued_before_its_time_nor_while_it_is_on_hold() -> None:
    waits: JSON = {"requeueState": {"count": 1, "requeueAt": LATER}}
    assert not plan(world(workload(status=waits)), NOW)
    assert plan(world(workload(status=waits)), NOW + timedelta(minutes=2))
    assert not plan(world(workload(status={"conditions": [said("QuotaReserved", "False", "OnHold")]})), NOW)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cq": cluster_queue(stopPolicy="HoldAndDrain")}, "ClusterQueueStopped"),
        ({"lq": local_queue(stopPolicy="HoldAndDrain")}, "LocalQueueStopped"),
    ],
)
def test_a_queue_that_is_drained_evicts(change: JSON, reason: str) -> None:
    assert brief(after(admitted(), **change), "Evicted")[:2] == ("True", reason)


def test_who_is_preempted_stays_so_when_the_queue_is_drained() -> None:
    preempted = admitted("w", 2, said("Evicted", reason="Preempted"))
    assert not plan(world(preempted, cq=cluster_queue(stopPolicy="HoldAndDrain")), NOW)


@pytest.mark.parametrize("change", [{"cq": cluster_queue(stopPolicy="Hold")}, {"lq": local_queue(stopPolicy="Hold")}])
def test_a_queue_that_is_held_evicts_nobody(change: JSON) -> None:
    assert not plan(world(admitted(), **change), NOW)


def test_a_finished_workload_holds_no_quota() -> None:
    assert brief(after(workload(), admitted("other", 4)), "QuotaReserved")[0] == "False"
    finished = admitted("other", 4, said("Finished", reason="Succeeded"))
    assert brief(after(workload(), finished), "QuotaReserved")[0] == "True"


def test_pods_that_are_no_longer_needed_free_their_quota() -> None:
    reclaimed = admitted("other", 4, status={"reclaimablePods": [{"name": "main", "count": 2}]})
    assert brief(after(workload(), reclaimed), "QuotaReserved")[0] == "True"
    reclaimed["status"]["reclaimablePods"][0]["count"] = 1
    assert brief(after(workload(), reclaimed), "QuotaReserved")[0] == "False"


def test_pods_that_are_no_longer_needed_ask_for_no_quota() -> None:
    status = after(workload(count=6, status={"reclaimablePods": [{"name": "main", "count": 3}]}))
    (assignment,) = status["admission"]["podSetAssignments"]
    assert (assignment["count"], assignment["resourceUsage"]) == (3, {"cpu": "3"})
    admitted_so = workload(count=6, status=status)
    used = cluster_queue_status(cluster_queue(), world(admitted_so), NOW)["flavorsUsage"]
    assert used[0]["resources"][0]["total"] == "3"


def test_one_that_is_being_deleted_gets_no_quota() -> None:
    one = workload()
    one["metadata"]["deletionTimestamp"] = LATER
    assert not plan(world(one), NOW)


def test_the_statuses_of_queues() -> None:
    members = (
        admitted("a", 1),
        admitted("b", 2, said("Evicted", reason="Preempted")),
        admitted("done", 1, said("Finished")),
        workload("w"),
        workload("off", active=False),
    )
    found = world(*members)
    status = cluster_queue_status(found.cluster_queues["cq"], found, NOW)
    assert brief(status, "Active") == ("True", "Ready", "Can admit new workloads")
    assert (status["pendingWorkloads"], status["reservingWorkloads"], status["admittedWorkloads"]) == (1, 2, 2)
    used = [{"name": "plain", "resources": [{"name": "cpu", "total": "3", "borrowed": "0"}]}]
    assert (status["flavorsReservation"], status["flavorsUsage"]) == (used, used)
    status = local_queue_status(found.local_queues["ns", "lq"], found, NOW)
    assert brief(status, "Active") == ("True", "Ready", "Can submit new workloads to clusterQueue")
    assert (status["pendingWorkloads"], status["reservingWorkloads"], status["admittedWorkloads"]) == (1, 2, 2)
    assert status["flavorsUsage"] == [{"name": "plain", "resources": [{"name": "cpu", "total": "3"}]}]


def test_quota_that_is_reserved_is_used_once_it_is_admitted() -> None:
    reserving = admitted("a", 3)
    del reserving["status"]["conditions"][1]
    found = world(reserving)
    status = cluster_queue_status(found.cluster_queues["cq"], found, NOW)
    assert (status["reservingWorkloads"], status["admittedWorkloads"]) == (1, 0)
    totals = [status[name][0]["resources"][0]["total"] for name in ("flavorsReservation", "flavorsUsage")]
    assert totals == ["3", "0"]


GOING = {**cluster_queue(), "metadata": {"name": "cq", "uid": "1", "deletionTimestamp": LATER}}


@pytest.mark.parametrize(
    ("change", "of_cluster_queue", "of_local_queue"),
    [
        ({"cq": GOING}, "Terminating", "ClusterQueueIsInactive"),
        ({"flavors": {}}, "FlavorNotFound", "ClusterQueueIsInactive"),
        ({"cq": cluster_queue(stopPolicy="Hold")}, "Stopped", "ClusterQueueIsInactive"),
        ({"lq": local_queue(stopPolicy="Hold")}, "Ready", "Stopped"),
        ({"lq": local_queue(clusterQueue="other")}, "Ready", "ClusterQueueDoesNotExist"),
    ],
)
def test_queues_that_are_not_active(change: JSON, of_cluster_queue: str, of_local_queue: str) -> None:
    found = world(**change)
    status = cluster_queue_status(found.cluster_queues["cq"], found, NOW)
    assert condition(status, "Active")["reason"] == of_cluster_queue
    status = local_queue_status(found.local_queues["ns", "lq"], found, NOW)
    assert (condition(status, "Active")["status"], condition(status, "Active")["reason"]) == ("False", of_local_queue)
