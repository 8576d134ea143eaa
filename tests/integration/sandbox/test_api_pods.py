"""Pods: the defaults of a real API server, and its refusals in its own words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import REVIEWS

PODS = sorted(REVIEWS.glob("Pod-*-CREATE.json"))
CONTAINER = {"name": "c", "image": "b"}


def create(served: Any, namespace: str, spec: Any, query: str = "?dryRun=All", **metadata: Any) -> Any:
    body = {"metadata": {"name": "p", **metadata}, "spec": spec}
    return served.request("POST", f"/api/v1/namespaces/{namespace}/pods{query}", body)


@pytest.mark.parametrize("path", PODS, ids=lambda path: path.stem)
def test_defaults_are_those_of_a_real_server(served: Any, path: Path) -> None:
    """The applied manifest becomes the object that a real API server sent into admission, managers and all."""
    seen = json.loads(path.read_text())["request"]["object"]
    manifest = json.loads(seen["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    manifest["metadata"]["annotations"] = seen["metadata"]["annotations"]
    query = "?dryRun=All&fieldManager=kubectl-client-side-apply&fieldValidation=Strict"
    answer = served.request("POST", "/api/v1/namespaces/default/pods" + query, manifest)
    assert answer.status == 201, answer.body
    assert answer.body["spec"] == seen["spec"]
    owned = answer.body["metadata"]["managedFields"][0]
    assert owned["fieldsV1"] == seen["metadata"]["managedFields"][0]["fieldsV1"]


def test_new_pod_is_pending_with_its_class(served: Any, namespace: str) -> None:
    best = create(served, namespace, {"containers": [CONTAINER]}).body
    assert best["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    limits = {"cpu": "1", "memory": "1Gi"}
    same = create(served, namespace, {"containers": [{**CONTAINER, "resources": {"limits": limits}}]}).body
    assert same["status"]["qosClass"] == "Guaranteed"


def test_quantities_are_canonical(served: Any, namespace: str) -> None:
    limits = {"cpu": "1000m", "memory": "1024Mi", "example.com/foo": 2}
    requests = {"cpu": 0.5, "memory": "1.5Gi", "example.com/foo": "2"}
    container = {**CONTAINER, "resources": {"limits": {**limits, "memory": "2048Mi"}, "requests": requests}}
    made = create(served, namespace, {"containers": [container]}).body["spec"]["containers"][0]["resources"]
    assert made["limits"] == {"cpu": "1", "memory": "2Gi", "example.com/foo": "2"}
    assert made["requests"] == {"cpu": "500m", "memory": "1536Mi", "example.com/foo": "2"}


def test_volume_and_reference_defaults(served: Any, namespace: str) -> None:
    items = [{"path": "x", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}]
    volumes = [{"name": "v"}, {"name": "d", "downwardAPI": {"items": items}}, {"name": "h", "hostPath": {"path": "/x"}}]
    spec = create(served, namespace, {"containers": [CONTAINER], "volumes": volumes}).body["spec"]
    assert spec["volumes"][0] == {"name": "v", "emptyDir": {}}
    assert spec["volumes"][1]["downwardAPI"]["defaultMode"] == 420
    assert spec["volumes"][1]["downwardAPI"]["items"][0]["resourceFieldRef"]["divisor"] == "0"
    assert spec["volumes"][2]["hostPath"] == {"path": "/x", "type": ""}


REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("no containers", {"containers": []}, ["spec.containers: Required value"]),
    ("no name", {"containers": [{"image": "b"}]}, ["spec.containers[0].name: Required value"]),
    ("no image", {"containers": [{"name": "c"}]}, ["spec.containers[0].image: Required value"]),
    ("twin", {"containers": [CONTAINER, CONTAINER]}, ['spec.containers[1].name: Duplicate value: "c"']),
    (
        "unknown volume",
        {"containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/x"}]}]},
        ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
    ),
    (
        "mounts clash",
        {
            "volumes": [{"name": "v"}],
            "containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/x"}] * 2}],
        },
        ['spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique'],
    ),
    (
        "volumes clash",
        {"volumes": [{"name": "v"}, {"name": "v"}], "containers": [CONTAINER]},
        ['spec.volumes[1].name: Duplicate value: "v"'],
    ),
    (
        "requests differ from limits",
        {"containers": [{**CONTAINER, "resources": {"limits": {"a.b/c": 2}, "requests": {"a.b/c": 1}}}]},
        ['spec.containers[0].resources.requests: Invalid value: "1": must be equal to a.b/c limit of 2'],
    ),
    (
        "requests without limits",
        {"containers": [{**CONTAINER, "resources": {"requests": {"a.b/c": 1}}}]},
        ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
    ),
    (
        "half a device",
        {"containers": [{**CONTAINER, "resources": {"limits": {"a.b/c": "500m"}}}]},
        [
            'spec.containers[0].resources.limits[a.b/c]: Invalid value: "500m": must be an integer',
            'spec.containers[0].resources.requests[a.b/c]: Invalid value: "500m": must be an integer',
        ],
    ),
    (
        "hugepages alone",
        {"containers": [{**CONTAINER, "resources": {"limits": {"hugepages-1Gi": "1Gi"}}}]},
        ["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
    ),
    (
        "node selector",
        {"nodeSelector": {"bad key": "x"}, "containers": [CONTAINER]},
        [
            (
                "spec.nodeSelector: Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', "
                "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
                "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            )
        ],
    ),
    (
        "restart policy",
        {"restartPolicy": "Nope", "containers": [CONTAINER]},
        ['spec.restartPolicy: Unsupported value: "Nope": supported values: "Always", "OnFailure", "Never"'],
    ),
]


@pytest.mark.parametrize(("spec", "faults"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refusals_read_like_the_real_ones(served: Any, namespace: str, spec: Any, faults: list[str]) -> None:
    answer = create(served, namespace, spec)
    assert (answer.status, answer.body["reason"], answer.body["status"]) == (422, "Invalid", "Failure")
    causes = [f"{cause['field']}: {cause['message']}" for cause in answer.body["details"]["causes"]]
    assert causes == faults
    text = faults[0] if len(faults) == 1 else "[" + ", ".join(faults) + "]"
    assert answer.body["message"] == f'Pod "p" is invalid: {text}'


DECODING = [
    (
        {"containers": [{**CONTAINER, "env": [{"name": "X", "value": 5}]}]},
        "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
    ),
    (
        {"containers": {"name": "c"}},
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
    ),
    (
        {"containers": [{**CONTAINER, "resources": {"limits": {"cpu": "1x"}}}]},
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
]


@pytest.mark.parametrize(("spec", "text"), DECODING, ids=["number", "list", "quantity"])
def test_wrong_types_are_bad_requests(served: Any, namespace: str, spec: Any, text: str) -> None:
    answer = create(served, namespace, spec)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"] == f'Pod in version "v1" cannot be handled as a Pod: {text}'


def test_unknown_fields_warn_refuse_or_vanish(served: Any, namespace: str) -> None:
    spec = {"containers": [{**CONTAINER, "bogus": 1}]}
    strict = create(served, namespace, spec, "?dryRun=All&fieldValidation=Strict")
    assert strict.status == 400
    assert strict.body["message"].endswith('strict decoding error: unknown field "spec.containers[0].bogus"')
    warned = create(served, namespace, spec)
    assert warned.headers["Warning"] == '299 - "unknown field \\"spec.containers[0].bogus\\""'
    assert "bogus" not in warned.body["spec"]["containers"][0]
    assert "Warning" not in create(served, namespace, spec, "?dryRun=All&fieldValidation=Ignore").headers


def test_most_of_a_running_pod_is_immutable(served: Any, namespace: str) -> None:
    create(served, namespace, {"containers": [CONTAINER]}, "")
    path = f"/api/v1/namespaces/{namespace}/pods/p"
    strategic = "application/strategic-merge-patch+json"

    def patch(spec: Any) -> Any:
        return served.request("PATCH", path, {"spec": spec}, content_type=strategic)

    assert patch({"containers": [{"name": "c", "image": "other"}]}).status == 200
    more = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "k", "operator": "Exists"}}]
    assert served.request("PATCH", path, more, content_type="application/json-patch+json").status == 200
    replaced = patch({"tolerations": [{"key": "z", "operator": "Exists"}]})
    assert "existing toleration can not be modified" in replaced.body["message"]
    refused = patch({"containers": [{"name": "c", "command": ["x"]}]})
    assert refused.status == 422
    assert "spec: Forbidden: pod updates may not change fields other than" in refused.body["message"]
    added = patch({"containers": [{"name": "d", "image": "b"}]})
    assert "pod updates may not add or remove containers" in added.body["message"]


def test_priority_is_the_servers(served: Any, namespace: str) -> None:
    assert create(served, namespace, {"containers": [CONTAINER], "priority": 7}).status == 403
    missing = create(served, namespace, {"containers": [CONTAINER], "priorityClassName": "nope"})
    assert missing.body["message"] == 'pods "p" is forbidden: no PriorityClass with name nope was found'


def test_a_runtime_class_decides_overhead_and_place(served: Any, namespace: str) -> None:
    name = f"kata-{namespace}"
    body = {
        "metadata": {"name": name},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": 0.25}},
        "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    }
    assert served.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", body).status == 201
    pod = {"containers": [CONTAINER], "runtimeClassName": name}
    made = create(served, namespace, pod).body["spec"]
    assert (made["overhead"], made["nodeSelector"]) == ({"cpu": "250m"}, {"kata": "yes"})
    assert made["tolerations"][-1] == {"key": "kata", "operator": "Exists"}
    assert create(served, namespace, {**pod, "overhead": {"cpu": "0.25"}}).status == 201
    refused = {
        'RuntimeClass "gone" not found': {"runtimeClassName": "gone"},
        "Pod's Overhead doesn't match RuntimeClass's defined Overhead": {"overhead": {"cpu": "1"}},
        "Pod Overhead set without corresponding RuntimeClass defined Overhead": {
            "runtimeClassName": None,
            "overhead": {"cpu": "1"},
        },
    }
    for message, spec in refused.items():
        answer = create(served, namespace, {**pod, **spec})
        assert answer.status == 403
        assert answer.body["message"] == f'pods "p" is forbidden: pod rejected: {message}'
    conflict = create(served, namespace, {**pod, "nodeSelector": {"kata": "no"}}).body["message"]
    places = "runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no"
    assert conflict == f'pods "p" is forbidden: conflict: {places}'


def test_names_and_labels_are_checked(served: Any, namespace: str) -> None:
    bad = create(served, namespace, {"containers": [CONTAINER]}, name="Bad_Name", labels={"k": "bad value"})
    fields = [cause["field"] for cause in bad.body["details"]["causes"]]
    assert fields == ["metadata.name", "metadata.labels"]
    huge = create(served, namespace, {"containers": [CONTAINER]}, annotations={"a": "x" * 300_000})
    assert huge.body["message"].endswith("metadata.annotations: Too long: may not be more than 262144 bytes")
