"""Quotas of object counts as a real API server enforces them, and their counter as a client of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.pods import pod

JSON = dict[str, Any]
TERM = {"topologyKey": "kubernetes.io/os", "labelSelector": {}}
ISOLATION: JSON = {
    "hard": {"pods": "0"},
    "scopeSelector": {"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]},
}


@pytest.fixture(scope="module")
def served(sandboxed: Any) -> Any:
    """The sandbox: a real API server enforces what a controller has counted, and these tests have no controller."""
    return sandboxed


def bound(served: Any, namespace: str, name: str, spec: JSON) -> None:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    answer = served.request("POST", path, {"metadata": {"name": name}, "spec": spec})
    assert answer.status == 201, answer.body


def quota(served: Any, namespace: str, name: str) -> JSON:
    return served.request("GET", f"/api/v1/namespaces/{namespace}/resourcequotas/{name}").body["status"]


def create(served: Any, namespace: str, plural: str, body: JSON) -> Any:
    return served.request("POST", f"/api/v1/namespaces/{namespace}/{plural}", body)


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("where", [{"namespaceSelector": {}}, {"namespaces": ["other"]}])
@pytest.mark.parametrize("preferred", [False, True])
def test_no_affinity_reaches_another_namespace(served, namespace, kind, where, preferred) -> None:
    bound(served, namespace, "berth-isolation", ISOLATION)
    term = {**TERM, **where}
    terms = (
        {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
        if preferred
        else {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    )
    answer = create(served, namespace, "pods", pod("evil", affinity={kind: terms}))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.body["message"] == (
        'pods "evil" is forbidden: exceeded quota: berth-isolation, requested: pods=1, used: pods=0, limited: pods=0'
    )
    own = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
    assert create(served, namespace, "pods", pod("good", affinity=own)).status == 201


@pytest.mark.parametrize(
    ("plural", "bounds", "body"),
    [
        ("pods", "pods", pod("")),
        ("pods", "count/pods", pod("")),
        ("secrets", "secrets", {"metadata": {}}),
        ("configmaps", "count/configmaps", {"metadata": {}}),
    ],
)
def test_objects_are_counted_up_and_down(served, namespace, plural, bounds, body) -> None:
    bound(served, namespace, "q", {"hard": {bounds: "2"}})

    def named(name: str) -> JSON:
        return {**body, "metadata": {"name": name}}

    assert [create(served, namespace, plural, named(name)).status for name in ("a", "b", "c")] == [201, 201, 403]
    assert quota(served, namespace, "q") == {"hard": {bounds: "2"}, "used": {bounds: "2"}}
    answer = create(served, namespace, plural, named("c"))
    text = f"exceeded quota: q, requested: {bounds}=1, used: {bounds}=2, limited: {bounds}=2"
    assert answer.body["message"] == f'{plural} "c" is forbidden: {text}'
    assert create(served, namespace, plural, named("a")).status == 403, "quotas are asked before names"
    served.request("DELETE", f"/api/v1/namespaces/{namespace}/{plural}/a")
    assert quota(served, namespace, "q")["used"] == {bounds: "1"}
    assert create(served, namespace, plural, named("c")).status == 201


def test_kinds_of_groups_are_counted(served, namespace) -> None:
    bound(served, namespace, "q", {"hard": {"count/leases.coordination.k8s.io": "1"}})
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    answers = [served.request("POST", path, {"metadata": {"name": name}}) for name in ("a", "b")]
    assert [answer.status for answer in answers] == [201, 403]
    assert answers[1].body["message"].startswith('leases.coordination.k8s.io "b" is forbidden: exceeded quota: q, ')


def test_a_pod_that_has_ended_is_none_of_pods(served, namespace) -> None:
    bound(served, namespace, "q", {"hard": {"pods": "1", "count/pods": "2"}})
    create(served, namespace, "pods", pod("a"))
    assert create(served, namespace, "pods", pod("b")).status == 403
    path = f"/api/v1/namespaces/{namespace}/pods/a/status"
    ended = {"status": {"phase": "Succeeded"}}
    answer = served.request("PATCH", path, ended, content_type="application/merge-patch+json")
    assert answer.status == 200
    assert quota(served, namespace, "q")["used"] == {"pods": "0", "count/pods": "1"}
    assert create(served, namespace, "pods", pod("b")).status == 201
    assert create(served, namespace, "pods", pod("c")).status == 403


def test_a_new_quota_counts_what_is_there(served, namespace) -> None:
    create(served, namespace, "pods", pod("a"))
    bound(served, namespace, "q", {"hard": {"pods": "1"}})
    assert quota(served, namespace, "q") == {"hard": {"pods": "1"}, "used": {"pods": "1"}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/q"
    more = {"spec": {"hard": {"pods": "2"}}}
    assert served.request("PATCH", path, more, content_type="application/merge-patch+json").status == 200
    assert create(served, namespace, "pods", pod("b")).status == 201
    assert create(served, namespace, "pods", pod("c")).status == 403


def test_a_dry_run_counts_nothing(served, namespace) -> None:
    bound(served, namespace, "q", {"hard": {"pods": "1"}})
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    assert [served.request("POST", path, pod("a")).status for _ in range(3)] == [201, 201, 201]
    assert quota(served, namespace, "q")["used"] == {"pods": "0"}
    create(served, namespace, "pods", pod("a"))
    assert served.request("POST", path, pod("b")).status == 403


def test_bounds_that_nobody_has_counted_for_hold_nothing_back(served, namespace) -> None:
    """As a real API server does: it enforces the status, which another component writes."""
    bound(served, namespace, "q", {"hard": {"pods": "0"}})
    stored = served.cluster.storage.get(("", "resourcequotas"), namespace, "q")
    bare = {name: value for name, value in stored.items() if name != "status"}
    served.inside(
        lambda: served.cluster.storage.update(("", "resourcequotas"), {**bare, "metadata": dict(bare["metadata"])})
    )
    assert create(served, namespace, "pods", pod("a")).status == 201
    stored = served.cluster.storage.get(("", "resourcequotas"), namespace, "q")
    partly = {**stored, "metadata": dict(stored["metadata"]), "status": {"hard": {"pods": "9"}, "used": {}}}
    served.inside(lambda: served.cluster.storage.update(("", "resourcequotas"), partly))
    answer = create(served, namespace, "pods", pod("b"))
    assert answer.body["message"] == 'pods "b" is forbidden: status unknown for quota: q, resources: pods'
