"""`scale`, `token` and `binding`; and what an update has to say of the version and the UID that it was made from."""

from __future__ import annotations

from typing import Any

import pytest

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
    assert served.request("POST", f"{accounts}/none/token", {}).status == 404
    assert served.request("GET", f"{accounts}/robot/token").status == 405


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
