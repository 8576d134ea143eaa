"""The codec: bytes to Review, Decision to bytes."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.admission.patch import Operation
from app.admission.review import Decision, decode, encode, identify
from app.errors import BadReview

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_both_versions_are_read_and_keep_their_name(review, version) -> None:
    decoded = decode(json.dumps(review(version=version, dryRun=True)).encode())
    assert decoded.api_version == f"admission.k8s.io/{version}"
    assert decoded.request.uid == UID
    assert decoded.request.namespace == "team"
    assert decoded.request.dry_run is True
    assert json.loads(bytes(decoded.request.object))["metadata"] == {"name": "web"}


def test_unknown_fields_are_ignored_for_the_api_server_may_know_more(review) -> None:
    document = review(userInfo={"username": "a", "extra": {"x": ["y"]}}, futureField={"a": 1})
    assert decode(json.dumps(document).encode()).request.user_info.username == "a"


def test_a_deletion_has_no_object(review) -> None:
    document = review(operation="DELETE")
    document["request"] |= {"object": None, "oldObject": {"kind": "Pod"}}
    request = decode(json.dumps(document).encode()).request
    assert not request.has_object
    del document["request"]["object"]
    assert not decode(json.dumps(document).encode()).request.has_object


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "Pod"}, "kind: want AdmissionReview, got 'Pod'"),
        ({"apiVersion": "admission.k8s.io/v2"}, "apiVersion: want admission.k8s.io/v1"),
        ({"request": None}, "request"),
        ({"request": []}, "request"),
        ({"request": {"uid": ""}}, "request.uid"),
        ({"request": {"uid": 7}}, "request.uid"),
        ({"request": {"uid": "a", "operation": "EAT"}}, "operation"),
        ({"request": {"uid": "a", "namespace": None}}, "namespace"),
    ],
)
def test_what_is_wrong_is_named(review, change, words) -> None:
    with pytest.raises(BadReview, match=r"want|Expected|Invalid") as caught:
        decode(json.dumps(review() | change).encode())
    assert words in str(caught.value)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b'{"kind": "AdmissionReview"}', b"[" * 100_000, b"\x00"]
)
def test_no_document_is_a_bad_review(body) -> None:
    with pytest.raises(BadReview):
        decode(body)
    assert identify(body) == ("admission.k8s.io/v1", "")


def test_a_deep_object_is_a_bad_review_that_still_echoes(review) -> None:
    body = json.dumps(review(version="v1beta1", obj="@")).replace('"@"', "[" * 100_000 + "]" * 100_000).encode()
    with pytest.raises(BadReview):
        decode(body)
    assert identify(body) == ("admission.k8s.io/v1beta1", UID)


def test_identify_reads_a_document_that_breaks_off(review) -> None:
    body = json.dumps(review(version="v1beta1")).encode()
    assert identify(body[:-5]) == ("admission.k8s.io/v1beta1", UID)


def test_identify_reads_what_a_wrong_kind_says() -> None:
    body = b'{"kind":"Other","apiVersion":"admission.k8s.io/v1beta1","request":{"name":"a","uid":"u-1","operation":7}}'
    assert identify(body) == ("admission.k8s.io/v1beta1", "u-1")
    assert identify(b'{"apiVersion":"v7","request":{"uid":[1]}}') == ("admission.k8s.io/v1", "")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ["uid", "kind", "resource", "operation", "name", "namespace", "dryRun", "object", "oldObject", "userInfo"]
REVIEWS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.just("AdmissionReview") | JSON_VALUES,
        "apiVersion": st.sampled_from(["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]) | JSON_VALUES,
        "request": st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES) | JSON_VALUES,
    },
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=64), JSON_VALUES.map(lambda v: json.dumps(v).encode()), st.text().map(str.encode)))
def test_whatever_comes_only_a_bad_review_escapes(body: bytes) -> None:
    with pytest.raises(BadReview):
        decode(body)
    version, uid = identify(body)
    json.loads(encode(Decision(allowed=False, reason="BadReview", message="m"), api_version=version, uid=uid))


@settings(max_examples=300, deadline=None)
@given(REVIEWS)
def test_almost_reviews_decode_or_are_bad(document: object) -> None:
    body = json.dumps(document).encode()
    try:
        decoded = decode(body)
    except BadReview:
        version, uid = identify(body)
    else:
        version, uid = decoded.api_version, decoded.request.uid
        assert identify(body) == (version, uid)
    answer = json.loads(encode(Decision(allowed=True, reason="Allowed"), api_version=version, uid=uid))
    assert answer["response"]["uid"] == uid


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_an_allowed_answer_without_operations_has_no_patch_field(version) -> None:
    answer = json.loads(encode(Decision(allowed=True, reason="Allowed"), api_version=version, uid="u"))
    assert answer == {"apiVersion": version, "kind": "AdmissionReview", "response": {"uid": "u", "allowed": True}}


def test_a_patch_travels_as_base64_with_its_type() -> None:
    decision = Decision(allowed=True, reason="Injected", operations=[Operation("add", "/a", {"b": 1})])
    response = json.loads(encode(decision, api_version="admission.k8s.io/v1", uid="u"))["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "add", "path": "/a", "value": {"b": 1}}]


def test_a_denial_has_a_status_and_false_is_written_out() -> None:
    decision = Decision(
        allowed=False, reason="BadNetworks", message="say why", code=422, warnings=["w"], audit_annotations={"k": "v"}
    )
    response = json.loads(encode(decision, api_version="admission.k8s.io/v1", uid="u"))["response"]
    assert response["allowed"] is False
    assert response["status"] == {"status": "Failure", "message": "say why", "reason": "BadNetworks", "code": 422}
    assert response["warnings"] == ["w"]
    assert response["auditAnnotations"] == {"k": "v"}
    assert "patch" not in response
    assert "patchType" not in response
