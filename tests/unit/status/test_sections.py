"""What sections make of the objects that they read: counts, reasons, severities."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.claims.roads import Offer
from app.doctor.installed import read_deployment
from app.doctor.model import Severity
from app.doctor.objects import waits_for
from app.networks.sections import Asked, count, unoffered
from app.status.roles import leader_of, replicas, version_of
from app.tenancy.sections import certificate_days, row_of
from app.text import stamp
from app.workloads.sections import Tally

JSON = dict[str, Any]
NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
OLD, NEW = (stamp(NOW - timedelta(seconds=seconds)) for seconds in (3600, 10))


def deployment(kind: str = "Deployment", image: str = "example.com:5000/berth:0.1.0", **status: int) -> JSON:
    template = {"spec": {"containers": [{"name": "a", "image": image, "args": ["controller"]}]}}
    metadata = {"name": "berth-controller", "namespace": "berth-system", "labels": {"app.kubernetes.io/version": "9"}}
    return {"kind": kind, "metadata": metadata, "spec": {"replicas": 2, "template": template}, "status": status}


def test_replicas_of_both_kinds() -> None:
    def counted(kind: str, **status: int) -> tuple[int, int]:
        one = read_deployment(deployment(kind, **status))
        assert one is not None
        return replicas(one)

    assert counted("Deployment", readyReplicas=1) == (1, 2)
    assert counted("Deployment") == (0, 2)
    assert counted("DaemonSet", numberReady=3, desiredNumberScheduled=4) == (3, 4)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("berth:0.1.0", "0.1.0"),
        ("example.com:5000/berth:0.1.0", "0.1.0"),
        ("example.com:5000/berth", "9"),
        ("berth@sha256:12ab", "9"),
        ("berth:0.1.0@sha256:12ab", "0.1.0"),
    ],
)
def test_the_version_is_the_tag_of_the_image(image: str, version: str) -> None:
    one = read_deployment(deployment(image=image))
    assert one is not None
    assert version_of(one) == version


@pytest.mark.parametrize(
    ("spec", "leader", "note"),
    [
        (None, None, "no replica holds L"),
        ({"holderIdentity": ""}, None, "no replica holds L"),
        ({"holderIdentity": "a", "renewTime": NEW}, "a", ""),
        ({"holderIdentity": "a", "renewTime": OLD}, "a", f"L was last renewed at {OLD}"),
        ({"holderIdentity": "a", "renewTime": OLD, "leaseDurationSeconds": 7200}, "a", ""),
        ({"holderIdentity": "a"}, "a", "L was last renewed at no known time"),
    ],
)
def test_the_leader_is_the_one_that_renews_its_lease(spec: JSON | None, leader: str | None, note: str) -> None:
    assert leader_of(None if spec is None else {"spec": spec}, "L", NOW) == (leader, note)


def tenant(connected: JSON | None = None, *, ends: str | None = "2026-03-01T12:00:00Z", **spec: Any) -> JSON:
    pin = {"sha256": "0" * 64} | ({"until": ends} if ends else {})
    identity = {"names": ["tenant1.tenant.local"], "certificates": [pin]}
    status: JSON = {"result": "success", "lastContact": NEW}
    if connected is not None:
        status["conditions"] = [{"type": "Connected", **connected}]
    return {
        "metadata": {"name": "tenant1"},
        "spec": {"identity": identity, "hosts": ["host-a", "host-b"], **spec},
        "status": status,
    }


WELL = {"status": "True", "reason": "AgentConnected", "message": "it is"}


def judged(obj: JSON, *, dpus: tuple[int, int] = (2, 2), hosts: set[str] | None = None) -> tuple[Severity, object]:
    row = row_of(obj, now=NOW, dpus={"tenant1": dpus}, hosts={"host-a", "host-b"} if hosts is None else hosts)
    return row.severity, row.values["message"]


def test_a_tenant_that_is_well() -> None:
    row = row_of(tenant(WELL), now=NOW, dpus={"tenant1": (2, 2)}, hosts={"host-a", "host-b"})
    assert row.severity is Severity.ok
    assert row.values == {
        "tenant": "tenant1",
        "agent": "AgentConnected",
        "lastContact": NEW,
        "certificateDays": 29,
        "hosts": 2,
        "readyDpus": 2,
        "dpus": 2,
        "state": "ready",
        "message": None,
    }


def test_what_is_wrong_with_a_tenant() -> None:
    refused = {"status": "False", "reason": "CertificateRefused", "message": "it is not pinned"}
    never = {"status": "Unknown", "reason": "NoContact", "message": "no call yet"}
    assert judged(tenant(refused)) == (Severity.error, "it is not pinned")
    assert judged(tenant(never)) == (Severity.info, "no call yet")
    suspended = {"status": "False", "reason": "Suspended", "message": "it is suspended"}
    assert judged(tenant(suspended, suspended=True)) == (Severity.ok, None)
    soon = stamp(NOW + timedelta(days=3, hours=1))
    assert judged(tenant(WELL, ends=soon)) == (Severity.warning, "its last certificate ends in 3 days")
    assert judged(tenant(WELL, ends=OLD)) == (Severity.error, "its certificates have ended")
    assert judged(tenant(WELL), hosts={"host-a"}) == (Severity.warning, "no node is the DPU of host-b")
    assert judged(tenant(WELL), dpus=(1, 2)) == (Severity.warning, "1 of its DPUs is not ready")
    broken = tenant(WELL)
    broken["status"] |= {"result": "error", "message": "HostTaken: host-a"}
    assert judged(broken) == (Severity.error, "HostTaken: host-a")


def test_without_nodes_nothing_is_said_of_dpus() -> None:
    row = row_of(tenant(WELL), now=NOW, dpus={}, hosts=None)
    assert (row.severity, row.values["readyDpus"], row.values["dpus"]) == (Severity.ok, None, None)


def test_certificates_count_until_the_last_ends() -> None:
    first, last = ({"until": stamp(NOW + timedelta(days=days))} for days in (3, 90))
    assert certificate_days([first, last], NOW) == 90
    assert certificate_days([first, {}], NOW) is None
    assert certificate_days([], NOW) is None


def rule(matched: int, created: int, ready: JSON | None, result: str = "success") -> JSON:
    status = {"matched": matched, "created": created, "result": result}
    if ready is not None:
        status["conditions"] = [{"type": "Ready", **ready}]
    return {"kind": "AdminWorkloadRule", "metadata": {"namespace": "universe", "name": "r"}, "status": status}


def pod(phase: str = "Running", *, created: str = OLD, node: str = "n", conditions: Any = (), **status: Any) -> JSON:
    listed = [{"type": kind, "status": said, **more} for kind, said, more in conditions]
    return {
        "metadata": {"namespace": "tenant-a", "name": "p", "creationTimestamp": created},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": listed, **status},
    }


def waiting(reason: str, message: str = "") -> list[JSON]:
    return [{"name": "app", "state": {"waiting": {"reason": reason, "message": message}}}]


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (pod(), None),
        (pod(conditions=[("Ready", "True", {})]), None),
        (pod("Pending", node=""), ("NotScheduled", "it has no node yet")),
        (pod("Pending"), ("NotStarted", "its node has not started it")),
        (
            pod(
                "Pending",
                conditions=[("PodScheduled", "False", {"reason": "Unschedulable", "message": "0/3 nodes"})],
            ),
            ("Unschedulable", "0/3 nodes"),
        ),
        (
            pod("Pending", containerStatuses=waiting("ImagePullBackOff", "no such image")),
            ("ImagePullBackOff", "container app: no such image"),
        ),
        (pod(containerStatuses=waiting("CrashLoopBackOff")), ("CrashLoopBackOff", "container app: CrashLoopBackOff")),
        (pod("Failed", reason="Evicted", message="disk"), ("Evicted", "disk")),
        (
            pod(conditions=[("Ready", "False", {"reason": "ContainersNotReady", "message": "app"})]),
            ("ContainersNotReady", "app"),
        ),
    ],
)
def test_why_a_pod_waits(obj: JSON, why: tuple[str, str] | None) -> None:
    assert waits_for(obj) == why


def test_a_pod_that_is_deleted_waits_for_its_end() -> None:
    obj = pod()
    obj["metadata"]["deletionTimestamp"] = NEW
    assert waits_for(obj) == ("Terminating", "")


def test_companions_are_grouped_by_reason_the_worst_first() -> None:
    tally = Tally()
    refused = {"status": "False", "reason": "QuotaExceeded", "message": "2 of 2"}
    tally.rule(rule(5, 3, refused, "error"))
    tally.rule(rule(4, 4, {"status": "True", "reason": "AsDesired"}))
    for one in (pod(), pod(), pod("Succeeded"), pod("Pending"), pod("Pending", created=NEW), pod("Failed")):
        tally.pod(one, NOW)
    assert (tally.wanted, tally.running, tally.ended) == (9, 2, 1)
    assert [(row.severity, row.values["reason"], row.values["count"]) for row in tally.rows()] == [
        (Severity.error, "QuotaExceeded", 2),
        (Severity.warning, "NotStarted", 2),
        (Severity.warning, "Failed", 1),
    ]
    (first, *_) = tally.rows()
    assert (first.values["example"], first.values["message"]) == ("AdminWorkloadRule universe/r", "2 of 2")


@pytest.mark.parametrize(
    ("one", "group"),
    [
        (rule(2, 0, None), (Severity.info, "RuleNotProcessed", 2)),
        (rule(2, 1, {"status": "False", "reason": "Waiting", "message": "1 of 2"}), (Severity.info, "Waiting", 1)),
        (
            rule(0, 0, {"status": "False", "reason": "InvalidRule", "message": "no"}, "error"),
            (Severity.error, "InvalidRule", 0),
        ),
        (
            rule(2, 1, {"status": "True", "reason": "AsDesired", "message": "1 of 2 exist; Denied"}),
            (Severity.info, "Excluded", 1),
        ),
        (
            rule(2, 2, {"status": "Unknown", "reason": "NotConnected", "message": "not connected"}, ""),
            (Severity.warning, "NotConnected", 0),
        ),
    ],
)
def test_what_a_rule_wants_and_has_not(one: JSON, group: tuple[Severity, str, int]) -> None:
    tally = Tally()
    tally.rule(one)
    assert [(row.severity, row.values["reason"], row.values["count"]) for row in tally.rows()] == [group]


def test_uvs_pods_show_what_runs_in_the_infra_cluster() -> None:
    def mirror(phase: str | None, *, ready: str = "True", reason: str = "Mirrored", **labels: str) -> JSON:
        conditions = [{"type": "Ready", "status": ready, "reason": reason, "message": "m"}]
        metadata = {"namespace": "universe", "name": "p", "labels": labels}
        return {"metadata": metadata, "status": {"phase": phase, "conditions": conditions}}

    tally, mark = Tally(), {"berth.dev/mirror": "true"}
    for one in (
        mirror("Running", **mark),
        mirror("Pending", **mark),
        mirror("Running"),
        mirror("Running", ready="Unknown", reason="NotConnected", **mark),
    ):
        tally.mirror(one)
    failing = mirror("Running", **mark)
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s"}
    failing["status"]["pod"] = {"containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]}
    tally.mirror(failing)
    tally.mirror({"metadata": {"namespace": "universe", "name": "new"}})
    assert (tally.asked, tally.mirrors, tally.running) == (2, 6, 2)
    crashed = next(row for row in tally.rows() if row.values["reason"] == "CrashLoopBackOff")
    assert (crashed.severity, crashed.values["message"]) == (Severity.warning, "container c: back-off 40s")
    assert {row.values["reason"]: row.values["count"] for row in tally.rows()} == {
        "Pending": 1,
        "NotConnected": 1,
        "NotProcessed": 1,
        "CrashLoopBackOff": 1,
    }


def test_reasons_are_bounded() -> None:
    tally = Tally()
    for number in range(200):
        tally.wait(f"Reason{number}", "x", "y", Severity.info)
    rows = list(tally.rows())
    assert len(rows) <= 51
    assert sum(int(row.values["count"] or 0) for row in rows) == 200


def attachment(name: str, resource: str = "", **annotations: str) -> JSON:
    if resource:
        annotations["k8s.v1.cni.cncf.io/resourceName"] = resource
    return {"metadata": {"namespace": "default", "name": name, "annotations": annotations}}


def test_attachments_whose_resource_nothing_offers() -> None:
    keys = ("k8s.v1.cni.cncf.io/resourceName",)
    offer = Offer({"n1": {"example.com/foo": "2", "example.com/none": "0"}}, [], [])
    asked: dict[tuple[str, bool], Asked] = {}
    for one in (
        attachment("a", "example.com/foo"),
        attachment("c", "example.com/none"),
        attachment("b", "example.com/none"),
        attachment("d"),
    ):
        count(asked, one, keys)
    [(wanted, row)] = unoffered(asked, offer)
    assert wanted == ("example.com/none", False)
    assert row.values == {
        "resource": "example.com/none",
        "attachments": 2,
        "example": "default/b",
        "message": "nothing offers it",
    }
