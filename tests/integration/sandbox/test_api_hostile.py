"""Hostile and broken requests: every one is answered with a Status, none with a 500."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PODS = "/api/v1/namespaces/default/pods"
DEEP = b'{"metadata":' + b'{"a":' * 5000 + b"1" + b"}" * 5001
DEEPISH = b'{"metadata":{"name":"x"},"spec":' + b"[" * 400 + b"]" * 400 + b"}"
BODIES = {
    "empty": (b"", 400),
    "not json": (b"<html>", 400),
    "not utf-8": (b"\xff\xfe{}", 400),
    "cut": (b'{"metadata": {"name": "x"', 400),
    "list": (b"[]", 400),
    "number": (b"17", 400),
    "null": (b"null", 422),
    "deep lists": (DEEPISH, 400),
    "huge": (b'{"a": "' + b"x" * (3 * 1024 * 1024) + b'"}', 413),
    "wrong kind": (b'{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}', 400),
    "wrong version": (b'{"kind": "Pod", "apiVersion": "v2", "metadata": {"name": "x"}}', 400),
    "kind is a list": (b'{"kind": ["Pod"], "metadata": {"name": "x"}}', 400),
    "metadata is a text": (b'{"metadata": "x", "spec": {}}', 400),
    "metadata is null": (b'{"metadata": null, "spec": {"containers": []}}', 422),
    "spec is a text": (b'{"metadata": {"name": "x"}, "spec": "y"}', 400),
    "spec is null": (b'{"metadata": {"name": "x"}, "spec": null}', 422),
    "nulls in lists": (b'{"metadata": {"name": "x"}, "spec": {"containers": [null], "volumes": [null]}}', 422),
    "other namespace": (b'{"metadata": {"name": "x", "namespace": "kube-system"}}', 400),
    "version given": (b'{"metadata": {"name": "x", "resourceVersion": "1"}, "spec": {"containers": []}}', 422),
    "number too large": (b'{"metadata": {"name": "x"}, "spec": {"priority": 99999999999999999999999}}', 400),
}
NOT_READ = {
    "deep": (DEEP, "application/json"),
    "surrogate": (b'{"metadata": {"name": "\\ud800"}, "spec": {"containers": []}}', "application/json"),
}
"""What a real API server reads and the sandbox refuses, for its own safety."""


def assert_status(answer: Any, code: int) -> None:
    assert answer.status == code, answer.body
    assert answer.body["kind"] == "Status"
    assert (answer.body["status"], answer.body["code"]) == ("Failure", code)
    assert answer.body["message"]
    assert answer.body["reason"]


@pytest.mark.parametrize("name", BODIES)
def test_broken_bodies_get_a_status(served: Any, name: str) -> None:
    body, code = BODIES[name]
    assert_status(served.request("POST", PODS, body), code)


@pytest.mark.parametrize("name", NOT_READ)
def test_the_sandbox_does_not_read_everything(sandboxed: Any, name: str) -> None:
    body, media = NOT_READ[name]
    assert_status(sandboxed.request("POST", PODS, body, content_type=media), 400)


@pytest.mark.parametrize("path", ["/nope", "/apis/nope", "/apis/nope.example.com/v1/things"])
def test_what_no_group_serves_is_not_found(served: Any, path: str) -> None:
    answer = served.request("GET", path)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"{}", "text/plain", 415),
        (b"\x00\x01", "application/vnd.kubernetes.protobuf", 400),
        (b"k8s\x00\xff\xff\xff\xff", "application/vnd.kubernetes.protobuf", 400),
        (b"a: [", "application/yaml", 400),
        (b"? {a: b}\n: c\n", "application/yaml", 400),
        (b"data: {a: .inf}\n", "application/yaml", 400),
        (b"metadata: {name: !!int x}\n", "application/yaml", 400),
        (b"metadata: {name: y}\n", "application/yaml", 400),
    ],
)
def test_other_encodings_get_a_status(served: Any, body: bytes, content_type: str, code: int) -> None:
    assert_status(served.request("POST", PODS, body, content_type=content_type), code)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v2/pods", 404),
        ("GET", "/api/v1/nosuch", 404),
        ("GET", "/api/v1/namespaces/default/pods/x/y/z/w", 404),
        ("GET", "/api/v1/namespaces/default/pods/x/nosuch", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/namespaces/default/pods/..%2F..%2Fx", 404),
        ("GET", "/api/v1/pods?limit=minus", 400),
        ("GET", "/api/v1/pods?continue=%21%21", 400),
        ("GET", "/api/v1/pods?resourceVersion=abc", 400),
        ("GET", "/api/v1/pods?labelSelector=%3D%3D%3D", 400),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("POST", "/api/v1/pods", 405),
        ("TRACE", "/api/v1/pods", 405),
        ("POST", "/version", 405),
        ("DELETE", "/api/v1/namespaces/default", 403),
    ],
)
def test_odd_paths_get_a_status(served: Any, method: str, path: str, code: int) -> None:
    assert_status(served.request(method, path, {} if method in ("PUT", "POST") else None), code)


@pytest.mark.parametrize(
    "options",
    [
        {"propagationPolicy": "Sometimes"},
        {"gracePeriodSeconds": "soon"},
        {"preconditions": []},
        {"kind": "Pod"},
        [],
    ],
)
def test_odd_deletions_get_a_status(served: Any, namespace: str, options: Any) -> None:
    body = {"metadata": {"name": "m"}}
    served.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    answer = served.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/m", options)
    assert answer.body["kind"] == "Status"
    assert 400 <= answer.status < 500
    assert served.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/m").status == 200


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "image", "containers", "resources", "limits", "env", "valueFrom", "fieldRef", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
SPECS = st.dictionaries(
    st.sampled_from(
        [
            "containers",
            "initContainers",
            "volumes",
            "tolerations",
            "affinity",
            "nodeSelector",
            "securityContext",
            "overhead",
            "nodeName",
        ]
    ),
    VALUES,
    max_size=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=SPECS, metadata=st.dictionaries(st.sampled_from(["labels", "annotations", "finalizers"]), VALUES))
def test_arbitrary_pods_are_never_an_internal_error(served: Any, spec: Any, metadata: Any) -> None:
    body = json.dumps({"metadata": {**metadata, "name": "fuzz"}, "spec": spec}).encode()
    answer = served.request("POST", PODS + "?dryRun=All", body)
    assert answer.status < 500, answer.body


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    patch=VALUES | st.fixed_dictionaries({"spec": SPECS}) | st.fixed_dictionaries({"metadata": VALUES}),
    kind=st.sampled_from(["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"]),
)
def test_arbitrary_patches_are_never_an_internal_error(served: Any, patch: Any, kind: str) -> None:
    pod = {"metadata": {"name": "target"}, "spec": {"containers": [{"name": "c", "image": "b"}]}}
    served.request("POST", PODS, pod)
    body = json.dumps(patch).encode()
    path = f"{PODS}/target?dryRun=All&fieldManager=fuzz&force=true"
    answer = served.request("PATCH", path, body, content_type=f"application/{kind}")
    # A strategic merge patch that cannot be merged, or an apply of what the kind does not have, is a 500 without a reason.
    assert answer.status < 500 or (kind.startswith(("strategic", "apply")) and "reason" not in answer.body), answer.body


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    ("path", "has_status"),
    [
        ("/nothing", False),
        ("/apis/nothing.example/v1/things", False),
        ("/api/v1/nothing", True),
        ("/apis/apps/v1/nothing", True),
        ("/api/v1/namespaces/default/pods/p/nothing", True),
        ("/api/v1/namespaces/default/nodes", True),
    ],
)
def test_no_method_is_allowed_at_a_path_that_is_not_there(
    served: Any, method: str, path: str, *, has_status: bool
) -> None:
    answer = served.request(method, path, {} if method in ("POST", "PUT") else None)
    assert answer.status == 404
    if has_status:
        assert answer.body["message"] == "the server could not find the requested resource"
    else:
        assert answer.body == b"404 page not found\n"


SECONDS, MICROSECONDS = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"


def _timed(served: Any, namespace: str, *, micro: bool, text: str) -> tuple[int, str]:
    """The status, and the time that was stored or the fault: of an Event, or of a Lease for microseconds."""
    group, plural = ("/apis/coordination.k8s.io/v1", "leases") if micro else ("/api/v1", "events")
    about = {"spec": {"acquireTime": text}} if micro else {"firstTimestamp": text}
    body = {"metadata": {"generateName": "t"}, "involvedObject": {"namespace": namespace}, **about}
    answer = served.request("POST", f"{group}/namespaces/{namespace}/{plural}", body)
    if answer.status == 201:
        return 201, answer.body["spec"]["acquireTime"] if micro else answer.body["firstTimestamp"]
    return answer.status, answer.body["message"].partition(": ")[2]


@pytest.mark.parametrize(
    ("text", "micro", "stored"),
    [
        ("2026-11-20T20:20:23Z", False, "2026-11-20T20:20:23Z"),
        ("2026-11-20T20:20:23.75Z", False, "2026-11-20T20:20:23Z"),
        ("2026-11-20T20:20:23+02:00", False, "2026-11-20T18:20:23Z"),
        ("2026-11-20T9:20:23Z", False, "2026-11-20T09:20:23Z"),
        ("2026-11-20T20:20:23.123456Z", True, "2026-11-20T20:20:23.123456Z"),
    ],
)
def test_times_are_stored_in_utc(served: Any, namespace: str, text: str, *, micro: bool, stored: str) -> None:
    assert _timed(served, namespace, micro=micro, text=text) == (201, stored)


@pytest.mark.parametrize(
    ("text", "micro", "fault"),
    [
        ("yesterday", False, f' as "{SECONDS}": cannot parse "yesterday" as "2006"'),
        ("", False, f' as "{SECONDS}": cannot parse "" as "2006"'),
        ("2026-11-20", False, f' as "{SECONDS}": cannot parse "" as "T"'),
        ("2026-11-20 20:20:23Z", False, f' as "{SECONDS}": cannot parse " 20:20:23Z" as "T"'),
        ("2026-11-20T20:20:23", False, f' as "{SECONDS}": cannot parse "" as "Z07:00"'),
        ("2026-02-30T20:20:23Z", False, ": day out of range"),
        ("2026-11-20T24:00:00Z", False, ": hour out of range"),
        ("2026-11-20T20:20:60Z", False, ": second out of range"),
        ("2026-11-20T20:20:23+25:00", False, ": time zone offset hour out of range"),
        ("2026-11-20T20:20:23Z", True, f' as "{MICROSECONDS}": cannot parse "Z" as ".000000"'),
        ("2026-11-20T20:20:23.1234567Z", True, f' as "{MICROSECONDS}": cannot parse "7Z" as "Z07:00"'),
    ],
)
def test_malformed_times_are_refused(served: Any, namespace: str, text: str, *, micro: bool, fault: str) -> None:
    assert _timed(served, namespace, micro=micro, text=text) == (400, f'parsing time "{text}"{fault}')


def test_60_0_is_an_integer_in_yaml_and_in_an_apply_and_not_in_json(served: Any, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    body = b'{"metadata":{"name":"a"},"spec":{"leaseDurationSeconds":60.0}}'
    refused = served.request("POST", path, body)
    prefix = 'Lease in version "v1" cannot be handled as a Lease: '
    assert (refused.status, refused.body["message"]) == (
        400,
        f"{prefix}json: cannot unmarshal number 60.0 into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32",
    )
    spec = {"leaseDurationSeconds": 60}
    assert served.request("POST", path, body, content_type="application/yaml").body["spec"] == spec
    applied = b'{"apiVersion":"coordination.k8s.io/v1","kind":"Lease",' + body[1:]
    apply = "application/apply-patch+yaml"
    assert served.request("PATCH", f"{path}/a?fieldManager=m", applied, content_type=apply).body["spec"] == spec
    strategic, patch = "application/strategic-merge-patch+json", b'{"spec":{"leaseDurationSeconds":61.0}}'
    patched = served.request("PATCH", f"{path}/a", patch, content_type=strategic)
    assert patched.body["spec"] == {"leaseDurationSeconds": 61}


def test_yaml_has_the_scalars_aliases_and_merges_of_go(served: Any, namespace: str) -> None:
    body = b"metadata: {name: a, labels: &l {x: 'y'}}\ndata: {<<: *l, t: =, u: 12e4567, 1: 2026-01-02}\n"
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = served.request("POST", path, body, content_type="application/yaml").body
    assert made["data"] == {"x": "y", "t": "=", "u": "12e4567", "1": "2026-01-02"}
