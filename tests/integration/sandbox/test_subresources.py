"""`scale`, `token` and `binding`; and what an update has to say of the version and the UID that it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.sandbox import CRDS

MERGE = "application/merge-patch+json"
CONTAINERS = [{"name": "c", "image": "b"}]
WORKLOAD = {
    "metadata": {"name": "w"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}},
    },
}
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def workloads(namespace: str, plural: str, rest: str = "") -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/{plural}{rest}"


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets"])
def test_scale_is_a_view_of_the_workload(served: Any, namespace: str, plural: str) -> None:
    made = served.request("POST", workloads(namespace, plural), WORKLOAD)
    assert made.status == 201, made.body
    path = workloads(namespace, plural, "/w/scale")
    scale = served.request("GET", path).body
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 0, "selector": "a=b"})
    assert scale["metadata"]["uid"] == made.body["metadata"]["uid"]
    written = served.request("PUT", path, {**scale, "spec": {"replicas": 3}})
    assert (written.status, written.body["spec"]["replicas"]) == (200, 3)
    assert served.request("PUT", path, {**scale, "spec": {"replicas": 4}}).body["reason"] == "Conflict"
    assert served.request("PATCH", path, {"spec": {"replicas": 2}}, content_type=MERGE).status == 200
    found = served.request("GET", workloads(namespace, plural, "/w")).body
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (2, 3)
    refused = served.request("PATCH", path, {"spec": {"replicas": -1}}, content_type=MERGE)
    assert (refused.status, refused.body["message"]) == (
        422,
        'Scale.autoscaling "w" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
    )
    assert served.request("GET", workloads(namespace, plural, "/none/scale")).status == 404


def test_kubectl_scales(served: Any, namespace: str) -> None:
    served.request("POST", workloads(namespace, "deployments"), WORKLOAD)
    done = served.kubectl("-n", namespace, "scale", "deployment/w", "--replicas=4")
    assert (done.returncode, done.stdout) == (0, "deployment.apps/w scaled\n"), done.stderr
    assert served.request("GET", workloads(namespace, "deployments", "/w")).body["spec"]["replicas"] == 4


SIZED: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sizes.scale.example"},
    "spec": {
        "group": "scale.example",
        "scope": "Namespaced",
        "names": {"plural": "sizes", "singular": "size", "kind": "Size", "listKind": "SizeList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"count": {"type": "integer", "maximum": 9}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.count",
                        "statusReplicasPath": ".status.count",
                        "labelSelectorPath": ".status.selector",
                    },
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def sizes(served: Any) -> Iterator[str]:
    """The path of objects with a subresource `scale`, in a namespace of their own."""
    served.define(SIZED)
    yield f"/apis/scale.example/v1/namespaces/{served.namespace()}/sizes"
    served.undefine("sizes.scale.example")


def _size(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "scale.example/v1", "kind": "Size", "metadata": {"name": name}, "spec": spec}


def test_scale_of_a_custom_resource_is_at_the_paths_of_its_definition(served: Any, sizes: str) -> None:
    made = served.request("POST", sizes, _size("a", {"count": 2})).body
    path = f"{sizes}/a/scale"
    assert served.request("GET", path).body["status"] == {"replicas": 0}
    status = {"status": {"count": 1, "selector": "a=b"}}
    assert served.request("PATCH", f"{sizes}/a/status", status, content_type=MERGE).status == 200
    scale = served.request("GET", path).body
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    assert served.request("PUT", path, {**scale, "spec": {"replicas": 3}}).body["spec"] == {"replicas": 3}
    assert served.request("PUT", path, {**scale, "spec": {"replicas": 4}}).body["reason"] == "Conflict"
    assert served.request("PATCH", path, {"spec": {"replicas": 5}}, content_type=MERGE).status == 200
    found = served.request("GET", f"{sizes}/a").body
    assert (found["spec"], found["metadata"]["generation"]) == ({"count": 5}, 3)
    nothing = served.request("PATCH", path, {"spec": {"replicas": None}}, content_type=MERGE)
    assert (nothing.status, nothing.body["spec"]) == (200, {})
    assert served.request("GET", f"{sizes}/a").body["spec"] == {"count": 0}


def test_scale_of_a_custom_resource_without_replicas_can_be_written_alone(served: Any, sizes: str) -> None:
    served.request("POST", sizes, _size("none", {}))
    unknown = served.request("GET", f"{sizes}/none/scale")
    text = 'Internal error occurred: the spec replicas field ".spec.count" does not exist'
    assert (unknown.status, unknown.body["message"]) == (500, text)
    written = served.request("PATCH", f"{sizes}/none/scale", {"spec": {"replicas": 5}}, content_type=MERGE)
    assert (written.body["spec"], written.body["status"]) == ({"replicas": 5}, {"replicas": 0})


@pytest.mark.parametrize(
    ("replicas", "fault"),
    [
        (-1, ".spec.count: Invalid value: -1: should be a non-negative integer"),
        (12, "spec.count: Invalid value: 12: spec.count in body should be less than or equal to 9"),
    ],
)
def test_a_scale_has_to_leave_a_valid_custom_resource(served: Any, sizes: str, replicas: int, fault: str) -> None:
    served.request("POST", sizes, _size("valid", {"count": 1}))
    refused = served.request("PATCH", f"{sizes}/valid/scale", {"spec": {"replicas": replicas}}, content_type=MERGE)
    assert (refused.status, refused.body["message"]) == (422, f'Size.scale.example "valid" is invalid: {fault}')


def test_the_replicas_of_a_custom_resource_are_a_whole_number(served: Any, sizes: str) -> None:
    refused = served.request("POST", sizes, _size("part", {"count": 2.0}))
    fault = ".spec.count: Invalid value: 0: .spec.count accessor error: 2 is of the type float64, expected int64"
    assert (refused.status, refused.body["message"]) == (422, f'Size.scale.example "part" is invalid: {fault}')


def test_kubectl_scales_custom_resources(served: Any, sizes: str) -> None:
    served.request("POST", sizes, _size("typed", {"count": 1}))
    done = served.kubectl("-n", sizes.split("/")[-2], "scale", "sizes.scale.example/typed", "--replicas=4")
    assert (done.returncode, done.stdout) == (0, "size.scale.example/typed scaled\n"), done.stderr
    assert served.request("GET", f"{sizes}/typed").body["spec"] == {"count": 4}


@pytest.mark.parametrize(
    ("field", "path", "fault"),
    [
        ("specReplicasPath", "", "Required value"),
        ("specReplicasPath", ".status.x", 'Invalid value: ".status.x": should be a json path under .spec'),
        ("specReplicasPath", "spec.x", 'Invalid value: "spec.x": must be a simple json path starting with .'),
        ("statusReplicasPath", "", "Required value"),
        ("statusReplicasPath", ".spec.x", 'Invalid value: ".spec.x": should be a json path under .status'),
        (
            "labelSelectorPath",
            ".metadata.labels",
            'Invalid value: ".metadata.labels": should be a json path under either .spec or .status',
        ),
    ],
)
def test_a_definition_says_where_the_replicas_are(served: Any, field: str, path: str, fault: str) -> None:
    (version,) = SIZED["spec"]["versions"]
    scale = version["subresources"]["scale"] | {field: path}
    spec = SIZED["spec"] | {"group": "bad.example", "versions": [version | {"subresources": {"scale": scale}}]}
    answer = served.request("POST", CRDS, SIZED | {"metadata": {"name": "sizes.bad.example"}, "spec": spec})
    prefix = 'CustomResourceDefinition.apiextensions.k8s.io "sizes.bad.example" is invalid: '
    assert answer.status == 422
    assert answer.body["message"] == f"{prefix}spec.subresources.scale.{field}: {fault}"


def test_a_token_is_the_service_account(served: Any, namespace: str) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    uid = served.request("POST", accounts, {"metadata": {"name": "robot"}}).body["metadata"]["uid"]
    done = served.kubectl("-n", namespace, "create", "token", "robot")
    assert done.returncode == 0, done.stderr
    review = {"spec": {"token": done.stdout.strip()}}
    status = served.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review).body["status"]
    assert status["authenticated"] is True
    user = status["user"]
    assert (user["username"], user["uid"]) == (f"system:serviceaccount:{namespace}:robot", uid)
    assert user["groups"] == ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    short = served.request("POST", f"{accounts}/robot/token", {"spec": {"expirationSeconds": 60}})
    assert (short.status, short.body["message"]) == (
        422,
        (
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 60: '
            "may not specify a duration less than 10 minutes"
        ),
    )
    for seconds in (1 << 33, 10**19):
        long = served.request("POST", f"{accounts}/robot/token", {"spec": {"expirationSeconds": seconds}})
        assert long.status in (400, 422), long.body
    for audiences in ("vault", [1], {"vault": 1}):
        odd = served.request("POST", f"{accounts}/robot/token", {"spec": {"audiences": audiences}})
        assert odd.status == 400, odd.body
    assert served.request("POST", f"{accounts}/none/token", {}).status == 404
    assert served.request("GET", f"{accounts}/robot/token").status == 405


def test_a_token_is_for_its_audience_alone(served: Any, namespace: str) -> None:
    served.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "robot"}})
    path = f"/api/v1/namespaces/{namespace}/pods"
    body = {"metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot", "containers": CONTAINERS}}
    uid = served.request("POST", path, body).body["metadata"]["uid"]
    bound = ["--bound-object-kind=Pod", "--bound-object-name=p", f"--bound-object-uid={uid}"]
    done = served.kubectl("-n", namespace, "create", "token", "robot", "--audience=vault", "--duration=20m", *bound)
    assert done.returncode == 0, done.stderr
    reviews, token = "/apis/authentication.k8s.io/v1/tokenreviews", done.stdout.strip()
    status = served.request("POST", reviews, {"spec": {"token": token, "audiences": ["vault", "x"]}}).body["status"]
    assert (status["authenticated"], status["audiences"]) == (True, ["vault"])
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    status = served.request("POST", reviews, {"spec": {"token": token}}).body["status"]
    assert status.get("authenticated") in (None, False)


@pytest.mark.parametrize("metadata", [None, {}, {"name": "other"}])
def test_a_binding_names_its_pod(served: Any, namespace: str, metadata: Any) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    served.request("POST", path, {"metadata": {"name": "p"}, "spec": {"containers": CONTAINERS}})
    body = {"target": {"kind": "Node", "name": "n1"}, **({} if metadata is None else {"metadata": metadata})}
    answer = served.request("POST", f"{path}/p/binding", body)
    assert (answer.status, answer.body["message"]) == (400, "name in URL does not match name in Binding object")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (HOOKS, {}),
        (HOOKS.replace("validating", "mutating"), {}),
        ("/apis/coordination.k8s.io/v1/namespaces/{}/leases", {}),
        ("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", {"spec": {"minAvailable": 1, "selector": {}}}),
    ],
)
def test_an_update_names_the_version(served: Any, namespace: str, path: str, body: Any) -> None:
    path, body = path.format(namespace), {**body, "metadata": {"name": namespace}}
    served.request("POST", path, body)
    answer = served.request("PUT", f"{path}/{namespace}", body)
    group, plural = path.split("/")[2], path.rpartition("/")[2]
    assert (answer.status, answer.body["message"]) == (
        422,
        (
            f'{plural}.{group} "{namespace}" is invalid: metadata.resourceVersion: Invalid value: 0: '
            "must be specified for an update"
        ),
    )
    served.request("DELETE", f"{path}/{namespace}")


def test_an_update_of_another_object_of_the_name_is_refused(served: Any, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    uid = served.request("POST", path, {"metadata": {"name": "m"}}).body["metadata"]["uid"]
    answer = served.request("PUT", f"{path}/m", {"metadata": {"name": "m", "uid": "x"}})
    assert answer.status == 409
    assert answer.body["message"].startswith('Operation cannot be fulfilled on configmaps "m": StorageError: invalid ')
    assert answer.body["message"].endswith(f"Precondition failed: UID in precondition: x, UID in object meta: {uid}")
    patched = served.request("PATCH", f"{path}/m", {"metadata": {"uid": "x"}}, content_type=MERGE)
    assert (patched.status, patched.body["message"]) == (
        422,
        'ConfigMap "m" is invalid: metadata.uid: Invalid value: "x": field is immutable',
    )
    for field, value in (("uid", "x"), ("resourceVersion", "1")):
        refused = served.request("DELETE", f"{path}/m", {"preconditions": {field: value}}).body["message"]
        assert refused.startswith('Operation cannot be fulfilled on ConfigMap "m": the ')
        assert f" in the precondition ({value}) does not match the " in refused


def test_a_new_object_has_no_version(served: Any, namespace: str) -> None:
    body = {"metadata": {"name": "m", "resourceVersion": "1"}}
    answer = served.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    text = "resourceVersion should not be set on objects to be created"
    assert (answer.status, answer.body["message"]) == (500, text)
