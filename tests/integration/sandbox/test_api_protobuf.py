"""Bodies in protobuf, as kubectl's typed commands send them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.devtools.sandbox.api.failures import StatusError
from app.devtools.sandbox.api.protobuf import MEDIA_TYPE, decode_protobuf


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def envelope(version: bytes, kind: bytes, message: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, version) + field(2, kind)) + field(2, message) + field(3, b"") + field(4, b"")


def test_config_map_is_stored(served: Any, namespace: str) -> None:
    metadata = (
        field(1, b"pb") + field(2, b"") + field(3, b"") + field(8, b"") + field(11, field(1, b"k") + field(2, b"v"))
    )
    message = field(1, metadata) + field(2, field(1, b"a") + field(2, b"b")) + field(4, 1)
    body = envelope(b"v1", b"ConfigMap", message)
    path = f"/api/v1/namespaces/{namespace}/configmaps?fieldValidation=Strict"
    made = served.request("POST", path, body, content_type=MEDIA_TYPE)
    assert made.status == 201, made.body
    assert (made.body["data"], made.body["immutable"]) == ({"a": "b"}, True)
    assert made.body["metadata"]["labels"] == {"k": "v"}


def test_access_review_is_answered(served: Any) -> None:
    attributes = field(1, b"default") + field(2, b"create") + field(3, b"") + field(5, b"pods")
    message = field(1, b"") + field(2, field(1, attributes)) + field(3, field(1, 0))
    body = envelope(b"authorization.k8s.io/v1", b"SelfSubjectAccessReview", message)
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = served.request("POST", path, body, content_type=MEDIA_TYPE)
    assert answer.body["status"]["allowed"] is True
    assert answer.body["spec"]["resourceAttributes"]["resource"] == "pods"


def test_deployment_with_numbers_quantities_and_lists() -> None:
    resources = field(1, field(1, b"cpu") + field(2, field(1, b"2")))
    port = field(1, b"http") + field(2, 0) + field(3, 8080)
    container = field(1, b"c") + field(2, b"b") + field(4, b"x") + field(4, b"y") + field(6, port) + field(8, resources)
    template = field(1, b"") + field(2, field(2, container))
    spec = field(1, 0) + field(3, template)
    decoded = decode_protobuf(envelope(b"apps/v1", b"Deployment", field(2, spec)))
    assert decoded["spec"]["replicas"] == 0  # a zero that was sent is not an absent one
    (made,) = decoded["spec"]["template"]["spec"]["containers"]
    assert made == {
        "name": "c",
        "image": "b",
        "args": ["x", "y"],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"limits": {"cpu": "2"}},
    }


@pytest.mark.parametrize(
    "body",
    [
        envelope(b"v1", b"Endpoints", b""),
        envelope(b"v1", b"Pod", field(2, field(18 - 4, field(1, b"x")))),
    ],
    ids=["kind", "field"],
)
def test_what_is_not_known_is_refused_not_dropped(body: bytes) -> None:
    with pytest.raises(StatusError) as refused:
        decode_protobuf(body)
    assert refused.value.code == 415
    assert "send JSON" in refused.value.status["message"]


@given(st.binary(max_size=200), st.sampled_from([b"Pod", b"ConfigMap", b"Secret", b"Deployment", b"DeleteOptions"]))
def test_arbitrary_bytes_are_a_status(message: bytes, kind: bytes) -> None:
    try:
        outcome: Any = decode_protobuf(envelope(b"v1", kind, message))["kind"]
    except StatusError as error:
        outcome = error.code
    assert outcome in (kind.decode(), 400, 415)
