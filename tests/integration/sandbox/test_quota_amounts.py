"""Quotas of amounts: what Pods request, ports of Services, storage; and the scopes of Pods."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.sandbox import Sandboxed
from tests.support.waiting import wait_until

JSON = dict[str, Any]
FOO = "example.com/foo"
MERGE = "application/merge-patch+json"


def pod(name: str, requests: JSON | None = None, limits: JSON | None = None, **spec: Any) -> JSON:
    resources = {"requests": requests or {}, "limits": limits or {}}
    container = {"name": "c", "image": "i", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def create(served: Any, namespace: str, plural: str, body: JSON) -> Any:
    return served.request("POST", f"/api/v1/namespaces/{namespace}/{plural}", body)


def bound(served: Any, namespace: str, hard: JSON, refused: JSON, plural: str = "pods", **spec: Any) -> None:
    """A quota q that holds.

    What a controller manager writes is written here where none runs. An API server takes it up a moment later: then
    this object is refused.
    """
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    answer = served.request("POST", path, {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}})
    assert answer.status == 201, answer.body
    if "status" not in answer.body or not answer.body["status"]:
        body = {**answer.body, "status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
        assert served.request("PUT", f"{path}/q/status", body).status == 200
    dry = f"/api/v1/namespaces/{namespace}/{plural}?dryRun=All"
    wait_until(lambda: served.request("POST", dry, refused).status == 403)


def used(served: Any, namespace: str) -> JSON:
    return dict(served.request("GET", f"/api/v1/namespaces/{namespace}/resourcequotas/q").body["status"]["used"])


AMOUNTS: JSON = {"requests.cpu": "2", "limits.memory": "1Gi", f"requests.{FOO}": "3", "pods": "5"}


def sized(name: str, cpu: str, memory: str, count: str) -> JSON:
    return pod(name, {"cpu": cpu, FOO: count}, {"memory": memory, FOO: count})


def test_a_quota_bounds_what_pods_request(served: Any, namespace: str) -> None:
    bound(served, namespace, AMOUNTS, sized("x", "3", "1Mi", "1"))
    assert create(served, namespace, "pods", sized("a", "0.5", "512Mi", "2")).status == 201
    counts = {"requests.cpu": "500m", "limits.memory": "512Mi", f"requests.{FOO}": "2", "pods": "1"}
    assert used(served, namespace) == counts
    refused = create(served, namespace, "pods", sized("b", "1800m", "768Mi", "2"))
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["message"] == (
        'pods "b" is forbidden: exceeded quota: q, '
        f"requested: limits.memory=768Mi,requests.cpu=1800m,requests.{FOO}=2, "
        f"used: limits.memory=512Mi,requests.cpu=500m,requests.{FOO}=2, "
        f"limited: limits.memory=1Gi,requests.cpu=2,requests.{FOO}=3"
    )
    assert used(served, namespace) == counts
    assert create(served, namespace, "pods", sized("b", "1500m", "256Mi", "1")).status == 201
    assert used(served, namespace) == {
        "requests.cpu": "2",
        "limits.memory": "768Mi",
        f"requests.{FOO}": "3",
        "pods": "2",
    }


def test_each_container_says_what_a_quota_bounds(served: Any, namespace: str) -> None:
    hard = {"limits.cpu": "4", "requests.memory": "1Gi", f"requests.{FOO}": "1"}
    bound(served, namespace, hard, pod("x"))
    body = pod("a", {"memory": "1Mi"}, initContainers=[{"name": "i", "image": "i"}])
    body["spec"]["containers"].append({"name": "b", "image": "i"})
    refused = create(served, namespace, "pods", body)
    assert refused.body["message"] == (
        'pods "a" is forbidden: failed quota: q: must specify limits.cpu for: b,c,i; requests.memory for: b,i'
    )


@pytest.mark.parametrize(
    ("spec", "inside", "outside"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 9}, {}),
        ({"scopes": ["NotTerminating"]}, {}, {"activeDeadlineSeconds": 9}),
        ({"scopes": ["BestEffort"]}, {}, {"requests": {"cpu": "1"}}),
        ({"scopes": ["NotBestEffort"]}, {"requests": {"cpu": "1"}}, {}),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
            {"priorityClassName": "system-cluster-critical"},
            {},
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["system-cluster-critical"]}
                    ]
                }
            },
            {},
            {"priorityClassName": "system-cluster-critical"},
        ),
    ],
)
def test_a_quota_with_scopes_is_for_their_pods(
    served: Any, namespace: str, spec: JSON, inside: JSON, outside: JSON
) -> None:
    bound(served, namespace, {"pods": "0"}, pod("x", **inside), **spec)
    assert create(served, namespace, "pods", pod("a", **inside)).status == 403
    assert create(served, namespace, "pods", pod("b", **outside)).status == 201


def service(name: str, kind: str, count: int) -> JSON:
    ports = [{"name": f"p{number}", "port": 80 + number} for number in range(count)]
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": ports}}


def test_a_service_that_becomes_larger_needs_room(served: Any, namespace: str) -> None:
    bound(served, namespace, {"services.nodeports": "2"}, service("x", "NodePort", 3), "services")
    assert create(served, namespace, "services", service("a", "NodePort", 1)).status == 201
    assert create(served, namespace, "services", service("b", "ClusterIP", 2)).status == 201
    path = f"/api/v1/namespaces/{namespace}/services/b"
    refused = served.request("PATCH", path, {"spec": {"type": "NodePort"}}, content_type=MERGE)
    assert (refused.status, refused.body["message"]) == (
        403,
        (
            'services "b" is forbidden: exceeded quota: q, requested: services.nodeports=2, '
            "used: services.nodeports=1, limited: services.nodeports=2"
        ),
    )
    assert used(served, namespace) == {"services.nodeports": "1"}


def volume_claim(name: str, size: str) -> JSON:
    resources = {"requests": {"storage": size}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, "storageClassName": "gold"}
    return {"metadata": {"name": name}, "spec": spec}


def test_a_quota_bounds_storage(served: Any, namespace: str) -> None:
    gold = "gold.storageclass.storage.k8s.io/requests.storage"
    hard = {"requests.storage": "3Gi", gold: "2Gi"}
    bound(served, namespace, hard, volume_claim("x", "4Gi"), "persistentvolumeclaims")
    assert create(served, namespace, "persistentvolumeclaims", volume_claim("a", "1Gi")).status == 201
    refused = create(served, namespace, "persistentvolumeclaims", volume_claim("b", "1.5Gi"))
    assert refused.body["message"].partition("exceeded quota: ")[2] == (
        f"q, requested: {gold}=1536Mi, used: {gold}=1Gi, limited: {gold}=2Gi"
    )
    assert used(served, namespace) == {"requests.storage": "1Gi", gold: "1Gi"}


def test_creations_at_once_do_not_exceed_a_quota(served: Any, namespace: str) -> None:
    bound(served, namespace, {f"requests.{FOO}": "3"}, pod("x", limits={FOO: "4"}))
    with ThreadPoolExecutor(8) as pool:
        bodies = [pod(f"p{number}", limits={FOO: "1"}) for number in range(8)]
        found = sorted(pool.map(lambda body: create(served, namespace, "pods", body).status, bodies))
    assert found == [201] * 3 + [403] * 5
    assert used(served, namespace) == {f"requests.{FOO}": "3"}


@pytest.mark.parametrize("name", ["hugepages-2Mi", "requests.hugepages-2Mi", "limits.cpu", f"requests.{FOO}"])
def test_amounts_that_a_quota_may_bound(served: Any, namespace: str, name: str) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": {name: "4"}}}
    assert create(served, namespace, "resourcequotas", body).status == 201


def test_what_a_pod_had_is_free_when_it_ends_or_goes(sandboxed: Sandboxed) -> None:
    """kubectl shows the status; in a whole cluster, its controller manager writes it."""
    namespace = sandboxed.namespace()
    hard = f"--hard=requests.{FOO}=2,requests.cpu=1"
    assert sandboxed.kubectl("-n", namespace, "create", "quota", "q", hard).returncode == 0
    for name in ("a", "b"):
        assert create(sandboxed, namespace, "pods", pod(name, {"cpu": "250m"}, {FOO: "1"})).status == 201
    shown = sandboxed.kubectl("-n", namespace, "describe", "quota", "q").stdout.splitlines()
    assert [line.split() for line in shown[-2:]] == [["requests.cpu", "500m", "1"], [f"requests.{FOO}", "2", "2"]]
    assert create(sandboxed, namespace, "pods", pod("c", {"cpu": "1m"}, {FOO: "1"})).status == 403
    path = f"/api/v1/namespaces/{namespace}/pods"
    ended = {"status": {"phase": "Succeeded"}}
    assert sandboxed.request("PATCH", f"{path}/a/status", ended, content_type=MERGE).status == 200
    assert used(sandboxed, namespace) == {"requests.cpu": "250m", f"requests.{FOO}": "1"}
    sandboxed.request("DELETE", f"{path}/b", {"gracePeriodSeconds": 0})
    assert used(sandboxed, namespace) == {"requests.cpu": "0", f"requests.{FOO}": "0"}
