"""Storing and serving objects over TLS: versions, conflicts, names, dry run, deletion."""

from __future__ import annotations

from typing import Any

import pytest

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
WORKLOAD = {"metadata": {"name": "p"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
JOB = {"metadata": {"name": "p"}, "spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}}}


def pods(namespace: str, name: str = "", query: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/pods{'/' + name if name else ''}{query}"


def maps(namespace: str, name: str = "", query: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps{'/' + name if name else ''}{query}"


def make_map(served: Any, namespace: str, name: str = "m", **metadata: Any) -> dict[str, Any]:
    answer = served.request("POST", maps(namespace), {"metadata": {"name": name, **metadata}, "data": {"a": "1"}})
    assert answer.status == 201, answer.body
    return answer.body


def test_created_object_has_identity_and_version(served: Any, namespace: str) -> None:
    created = make_map(served, namespace)
    metadata = created["metadata"]
    assert metadata["uid"]
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")
    assert metadata["managedFields"][0]["operation"] == "Update"
    assert served.request("GET", maps(namespace, "m")).body == created


def test_second_create_is_already_exists(served: Any, namespace: str) -> None:
    make_map(served, namespace)
    answer = served.request("POST", maps(namespace), {"metadata": {"name": "m"}})
    assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")
    assert answer.body["details"] == {"name": "m", "kind": "configmaps"}


def test_update_of_an_old_version_is_a_conflict(served: Any, namespace: str) -> None:
    first = make_map(served, namespace)
    second = served.request("PUT", maps(namespace, "m"), {**first, "data": {"a": "2"}})
    assert second.status == 200
    answer = served.request("PUT", maps(namespace, "m"), {**first, "data": {"a": "3"}})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert "the object has been modified" in answer.body["message"]
    assert served.request("GET", maps(namespace, "m")).body["data"] == {"a": "2"}


def test_update_that_changes_nothing_writes_nothing(served: Any, namespace: str) -> None:
    first = make_map(served, namespace)
    again = served.request("PUT", maps(namespace, "m"), first).body
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_generate_name_makes_distinct_names(served: Any, namespace: str) -> None:
    names = {
        served.request("POST", maps(namespace), {"metadata": {"generateName": "gen-"}}).body["metadata"]["name"]
        for _ in range(5)
    }
    assert len(names) == 5
    assert all(name.startswith("gen-") and len(name) == 9 for name in names)


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete"])
def test_dry_run_answers_as_if_and_stores_nothing(served: Any, namespace: str, verb: str) -> None:
    before = make_map(served, namespace)
    query = "?dryRun=All"
    if verb == "create":
        answer = served.request("POST", maps(namespace, "", query), {"metadata": {"name": "other"}})
        assert answer.body["metadata"]["uid"]
    elif verb == "update":
        answer = served.request("PUT", maps(namespace, "m", query), {**before, "data": {"a": "2"}})
        assert answer.body["data"] == {"a": "2"}
    elif verb == "patch":
        answer = served.request(
            "PATCH", maps(namespace, "m", query), {"data": {"a": "2"}}, content_type="application/merge-patch+json"
        )
        assert answer.body["data"] == {"a": "2"}
    else:
        answer = served.request("DELETE", maps(namespace, "m", query))
    assert answer.status < 300
    listed = served.request("GET", maps(namespace)).body["items"]
    assert [item["metadata"] for item in listed] == [before["metadata"]]


def test_object_with_finalizer_waits_for_it(served: Any, namespace: str) -> None:
    make_map(served, namespace, finalizers=["example.com/hold"])
    waiting = served.request("DELETE", maps(namespace, "m"))
    assert waiting.status == 200
    held = served.request("GET", maps(namespace, "m")).body
    assert held["metadata"]["deletionTimestamp"]
    added = {**held, "metadata": {**held["metadata"], "finalizers": ["example.com/hold", "example.com/late"]}}
    refused = served.request("PUT", maps(namespace, "m"), added)
    assert refused.status == 422
    assert "no new finalizers can be added if the object is being deleted" in refused.body["message"]
    released = served.request("PUT", maps(namespace, "m"), {**held, "metadata": {**held["metadata"], "finalizers": []}})
    assert released.status == 200
    assert served.request("GET", maps(namespace, "m")).status == 404


def test_unbound_pod_goes_at_once(served: Any, namespace: str) -> None:
    served.request("POST", pods(namespace), POD)
    assert served.request("DELETE", pods(namespace, "p")).body["kind"] == "Pod"
    assert served.request("GET", pods(namespace, "p")).status == 404


def test_bound_pod_stays_until_its_node_confirms(served: Any, namespace: str) -> None:
    served.request("POST", pods(namespace), POD)
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    assert served.request("POST", pods(namespace, "p") + "/binding", target).status == 201
    bound = served.request("GET", pods(namespace, "p")).body
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    assert served.request("POST", pods(namespace, "p") + "/binding", target).status == 409
    served.request("DELETE", pods(namespace, "p"))
    waiting = served.request("GET", pods(namespace, "p")).body["metadata"]
    assert waiting["deletionGracePeriodSeconds"] == 30
    assert waiting["deletionTimestamp"] > waiting["creationTimestamp"]
    served.request("DELETE", pods(namespace, "p", "?gracePeriodSeconds=0"))
    assert served.request("GET", pods(namespace, "p")).status == 404


def test_preconditions_of_a_deletion(served: Any, namespace: str) -> None:
    created = make_map(served, namespace)
    wrong = served.request("DELETE", maps(namespace, "m"), {"preconditions": {"uid": "another"}})
    assert (wrong.status, wrong.body["reason"]) == (409, "Conflict")
    assert "the UID in the precondition (another) does not match the UID in record (" in wrong.body["message"]
    right = served.request("DELETE", maps(namespace, "m"), {"preconditions": {"uid": created["metadata"]["uid"]}})
    assert right.body["status"] == "Success"


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_propagation_policy_is_left_to_the_collector(served: Any, namespace: str, policy: str, finalizer: str) -> None:
    make_map(served, namespace)
    answer = served.request("DELETE", maps(namespace, "m"), {"propagationPolicy": policy})
    assert answer.body["metadata"]["finalizers"] == [finalizer]


@pytest.mark.parametrize(("options", "finalizers"), [(None, ["orphan"]), ({"propagationPolicy": "Background"}, None)])
def test_a_job_leaves_its_pods_unless_it_is_told_otherwise(
    served: Any, namespace: str, options: Any, finalizers: Any
) -> None:
    """It warns, for kubectl and most clients always say what they want."""
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    body = {"metadata": {"name": "j", "finalizers": ["example.com/hold"]}, "spec": {"template": template}}
    assert served.request("POST", jobs, body).status == 201
    answer = served.request("DELETE", f"{jobs}/j", options)
    assert answer.body["metadata"]["finalizers"] == ["example.com/hold", *(finalizers or [])]
    assert ("child pods are preserved by default" in answer.headers.get("Warning", "")) is bool(finalizers)
    served.request(
        "PATCH", f"{jobs}/j", {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json"
    )


def test_delete_collection_follows_the_selector(served: Any, namespace: str) -> None:
    make_map(served, namespace, "a", labels={"x": "1"})
    make_map(served, namespace, "b", labels={"x": "2"})
    assert served.request("DELETE", maps(namespace, "", "?labelSelector=x%3D1")).status == 200
    assert [item["metadata"]["name"] for item in served.request("GET", maps(namespace)).body["items"]] == ["b"]


def test_namespace_lives_until_it_is_finalized(served: Any, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    assert served.request("DELETE", path).body["status"]["phase"] == "Terminating"
    refused = served.request("POST", maps(namespace), {"metadata": {"name": "late"}})
    assert refused.status == 403
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    current = served.request("GET", path).body
    assert current["spec"]["finalizers"] == ["kubernetes"]
    current["spec"]["finalizers"] = []
    assert served.request("PUT", path + "/finalize", current).status == 200
    assert served.request("GET", path).status == 404


def test_finalizing_leaves_a_namespace_that_something_else_holds(served: Any, namespace: str) -> None:
    path, merge = f"/api/v1/namespaces/{namespace}", "application/merge-patch+json"
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    assert served.request("PATCH", path, hold, content_type=merge).status == 200
    served.request("DELETE", path)
    current = served.request("GET", path).body
    finalized = served.request("PUT", path + "/finalize", {**current, "spec": {}}).body
    assert (finalized["spec"], finalized["status"]["phase"]) == ({}, "Terminating")
    assert served.request("GET", path).status == 200
    assert served.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=merge).status == 200
    assert served.request("GET", path).status == 404


def test_a_live_namespace_without_finalizers_is_only_marked_by_its_first_deletion(served: Any, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    finalized = served.request("PUT", path + "/finalize", {"metadata": {"name": namespace}, "spec": {}}).body
    assert finalized["status"]["phase"] == "Active"
    assert served.request("DELETE", path).body["status"]["phase"] == "Terminating"
    assert served.request("GET", path).status == 200
    assert served.request("DELETE", path).status == 200
    assert served.request("GET", path).status == 404


def test_a_new_node_is_tainted_until_somebody_sees_it_ready(served: Any) -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    own = {"key": "a", "effect": "NoSchedule"}
    for name, given, expected in (("t1", [], [taint]), ("t2", [own], [own, taint]), ("t3", [taint], [taint])):
        made = served.request("POST", "/api/v1/nodes", {"metadata": {"name": name}, "spec": {"taints": given}}).body
        assert made["spec"]["taints"] == expected
        body = {"spec": {"taints": None}}
        patched = served.request("PATCH", f"/api/v1/nodes/{name}", body, content_type="application/merge-patch+json")
        assert "taints" not in patched.body["spec"]
        assert served.request("DELETE", f"/api/v1/nodes/{name}").status == 200


TIMES = {
    "pods": ("/api/v1", POD, ["lastProbeTime", "lastTransitionTime"]),
    "deployments": ("/apis/apps/v1", WORKLOAD, ["lastTransitionTime", "lastUpdateTime"]),
    "replicasets": ("/apis/apps/v1", WORKLOAD, ["lastTransitionTime"]),
    "daemonsets": ("/apis/apps/v1", WORKLOAD, ["lastTransitionTime"]),
    "statefulsets": ("/apis/apps/v1", WORKLOAD, ["lastTransitionTime"]),
    "jobs": ("/apis/batch/v1", JOB, ["lastProbeTime", "lastTransitionTime"]),
}


@pytest.mark.parametrize("plural", TIMES)
def test_a_condition_shows_the_times_that_it_does_not_have(served: Any, namespace: str, plural: str) -> None:
    group, body, times = TIMES[plural]
    path = f"{group}/namespaces/{namespace}/{plural}"
    assert served.request("POST", path, body).status == 201
    condition = {"type": "example.com/x", "status": "True"}
    for sent in ({}, {"lastTransitionTime": "2026-01-01T00:00:00Z"}):
        status = {"status": {"conditions": [{**condition, **sent}]}}
        answer = served.request("PATCH", f"{path}/p/status", status, content_type="application/merge-patch+json")
        assert answer.body["status"]["conditions"] == [{**dict.fromkeys(times), **condition, **sent}]


def test_conditions_of_a_node_and_a_namespace_show_their_times(served: Any, namespace: str) -> None:
    condition = {"type": "Ready", "status": "True"}
    node = {"metadata": {"name": "n"}, "status": {"conditions": [condition]}}
    created = served.request("POST", "/api/v1/nodes?dryRun=All", node)
    times = {"lastHeartbeatTime": None, "lastTransitionTime": None}
    assert created.body["status"]["conditions"] == [{**times, **condition}]
    body = {"metadata": {"name": namespace}, "status": {"conditions": [condition]}}
    written = served.request("PUT", f"/api/v1/namespaces/{namespace}/status", body)
    assert written.body["status"]["conditions"] == [{"lastTransitionTime": None, **condition}]


STATUSES = {
    "no state": ({"name": "c"}, {"state": {}, "lastState": {}}),
    "no start": ({"name": "c", "state": {"running": {}}}, {"state": {"running": {"startedAt": None}}}),
    "no times": (
        {"name": "c", "lastState": {"terminated": {"exitCode": 3}}},
        {"state": {}, "lastState": {"terminated": {"exitCode": 3, "startedAt": None, "finishedAt": None}}},
    ),
    "no exit code": (
        {"name": "c", "state": {"terminated": {"reason": "Error"}}},
        {"state": {"terminated": {"reason": "Error", "exitCode": 0, "startedAt": None, "finishedAt": None}}},
    ),
    "a start": (
        {"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
        {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "lastState": {}},
    ),
}


@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"])
@pytest.mark.parametrize("name", STATUSES)
def test_the_status_of_a_container_shows_what_it_does_not_have(
    served: Any, namespace: str, name: str, field: str
) -> None:
    given, shown = STATUSES[name]
    assert served.request("POST", pods(namespace), POD).status == 201
    body = {"status": {field: [given]}}
    answer = served.request(
        "PATCH", f"{pods(namespace, 'p')}/status", body, content_type="application/merge-patch+json"
    )
    assert answer.status == 200, answer.body
    rest = {"ready": False, "restartCount": 0, "image": "", "imageID": ""}
    assert answer.body["status"][field] == [{"lastState": {}, **rest, **given, **shown}]


def test_what_a_node_and_an_event_do_not_have_is_shown(served: Any, namespace: str) -> None:
    status = {"images": [{}], "volumesAttached": [{}], "addresses": [{}]}
    node = served.request("POST", "/api/v1/nodes?dryRun=All", {"metadata": {"name": "n"}, "status": status}).body
    assert node["status"]["images"] == [{"names": None}]
    assert node["status"]["volumesAttached"] == [{"name": "", "devicePath": ""}]
    assert node["status"]["addresses"] == [{"type": "", "address": ""}]
    body = {"metadata": {"name": "e"}, "involvedObject": {"namespace": namespace, "kind": "Pod", "name": "p"}}
    event = served.request("POST", f"/api/v1/namespaces/{namespace}/events", body).body
    shown = dict.fromkeys(("eventTime", "firstTimestamp", "lastTimestamp"))
    shown |= {"source": {}, "reportingComponent": "", "reportingInstance": ""}
    assert {name: event.get(name, "missing") for name in shown} == shown


@pytest.mark.parametrize(
    ("status", "shown"), [({}, "Active"), ({"phase": ""}, "Active"), ({"phase": "Active"}, "Active")]
)
def test_a_namespace_that_is_not_deleted_is_active(served: Any, namespace: str, status: Any, shown: str) -> None:
    path, body = f"/api/v1/namespaces/{namespace}/status", {"metadata": {"name": namespace}}
    written = served.request("PUT", path, {**body, "status": status})
    assert (written.status, written.body["status"]["phase"]) == (200, shown)
    for phase in ("Terminating", "Bogus"):
        refused = served.request("PUT", path, {**body, "status": {"phase": phase}})
        assert refused.status == 422
        text = f"status.Phase: Invalid value: \"{phase}\": may only be 'Active' if `deletionTimestamp` is empty"
        assert text in refused.body["message"]


def test_only_the_status_endpoint_makes_owners_of_a_status(served: Any) -> None:
    node = {"metadata": {"name": "owned", "labels": {"a": "b"}}, "status": {"capacity": {"cpu": "1"}}}
    (entry,) = served.request("POST", "/api/v1/nodes", node).body["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}
    applied = {"apiVersion": "v1", "kind": "Node", "spec": {"unschedulable": True}, **node}
    answer = served.request(
        "PATCH",
        "/api/v1/nodes/owned/status?fieldManager=x&force=true",
        {**applied, "metadata": {"name": "owned"}},
        content_type="application/apply-patch+yaml",
    )
    (mine,) = [entry for entry in answer.body["metadata"]["managedFields"] if entry["manager"] == "x"]
    assert mine["fieldsV1"] == {"f:status": {"f:capacity": {"f:cpu": {}}}}
    assert served.request("DELETE", "/api/v1/nodes/owned").status == 200


def test_secrets_and_binary_data_are_base64(served: Any, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets?dryRun=All"
    for text, stored in (("YQ\n==", "YQ=="), ("YR==", "YQ=="), ("", "")):
        made = served.request("POST", path, {"metadata": {"name": "s"}, "data": {"k": text}})
        assert (made.status, made.body["data"]) == (201, {"k": stored})
    for text, at in (("YW!j", 2), ("YWJ", 0), ("YQ=", 3), ("YQ==YQ==", 4), ("YWJj=", 4), (" YQ==", 0)):
        refused = served.request("POST", path, {"metadata": {"name": "s"}, "data": {"k": text}})
        assert (refused.status, refused.body["message"].rpartition(" ")[2]) == (400, str(at)), text


def test_missing_namespace_is_not_found(served: Any) -> None:
    answer = served.request("POST", maps("nowhere"), {"metadata": {"name": "m"}})
    assert (answer.status, answer.body["message"]) == (404, 'namespaces "nowhere" not found')


def test_generation_counts_the_desired_state_only(served: Any, namespace: str) -> None:
    served.request("POST", pods(namespace), POD)
    path = pods(namespace, "p")
    patched = served.request(
        "PATCH", path + "/status", {"status": {"phase": "Running"}}, content_type="application/merge-patch+json"
    )
    assert (patched.body["metadata"]["generation"], patched.body["status"]["phase"]) == (1, "Running")
    changed = served.request(
        "PATCH",
        path,
        {"spec": {"containers": [{"name": "c", "image": "other"}]}, "status": {"phase": "Failed"}},
        content_type="application/strategic-merge-patch+json",
    )
    assert (changed.body["metadata"]["generation"], changed.body["status"]["phase"]) == (2, "Running")


def test_stored_secret_holds_base64(served: Any, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    created = served.request("POST", path, {"metadata": {"name": "s"}, "stringData": {"a": "b"}}).body
    assert (created["data"], created["type"]) == ({"a": "Yg=="}, "Opaque")
    assert "stringData" not in created
