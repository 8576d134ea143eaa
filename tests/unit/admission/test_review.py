"""The codec: bytes to Review, Decision to bytes."""

from __future__ import annotations

import base64
import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.admission.decision import Decision, encode, identify
from app.admission.patch import Operation
from app.admission.pods import Pod, decode_pod
from app.admission.review import Request, WholeRequest, decode
from app.errors import BadReview, Denied
from tests.support.paths import REVIEWS as RECORDED

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


def values(floats: st.SearchStrategy[float]) -> st.SearchStrategy[object]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | floats | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )


JSON_VALUES = values(st.floats(allow_nan=False))
"""With infinities, which are no JSON."""
FINITE_VALUES = values(st.floats(allow_nan=False, allow_infinity=False))
FIELDS = ["uid", "kind", "resource", "operation", "name", "namespace", "dryRun", "object", "oldObject", "userInfo"]
REVIEWS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.just("AdmissionReview") | JSON_VALUES,
        "apiVersion": st.sampled_from(["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]) | JSON_VALUES,
        "request": st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES) | JSON_VALUES,
    },
)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=64), JSON_VALUES.map(lambda v: json.dumps(v).encode()), st.text().map(str.encode)))
def test_whatever_comes_only_a_bad_review_escapes(body: bytes) -> None:
    with pytest.raises(BadReview):
        decode(body)
    version, uid = identify(body)
    json.loads(encode(Decision(allowed=False, reason="BadReview", message="m"), api_version=version, uid=uid))


@settings(max_examples=150, deadline=None)
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


METADATA = {
    "name": st.just("a") | FINITE_VALUES,
    "namespace": st.just("b"),
    "generateName": st.just("c-") | st.none(),
    "labels": st.dictionaries(st.text(), st.text() | st.none(), max_size=2) | FINITE_VALUES,
    "annotations": st.dictionaries(st.text(), st.text() | st.none(), max_size=2) | FINITE_VALUES,
    "ownerReferences": st.just([{"name": "o"}]) | FINITE_VALUES,
}
OBJECTS = (
    st.fixed_dictionaries(
        {},
        optional={
            "metadata": st.fixed_dictionaries({}, optional=METADATA) | FINITE_VALUES,
            "spec": st.just({"containers": [{"name": "a", "resources": None}], "hostNetwork": True}) | FINITE_VALUES,
            "status": FINITE_VALUES,
        },
    )
    | FINITE_VALUES
)


def seen(request: Request) -> list[object]:
    """All that can be read of an object; of one that is not readable as a Pod, its name may be."""
    found: list[object] = [request.has_object, json.loads(bytes(request.object)), request.creates_pod]
    try:
        found += [shown(request.pod), request.names]
    except Denied as denial:
        found += [str(denial), denial.code]
    metadata = request.metadata
    return [*found, metadata.labels, metadata.annotations, json.loads(bytes(metadata.owner_references))]


def shown(pod: object) -> object:
    """A Pod with its raw members as values: raw JSON is compared by identity."""
    if not isinstance(pod, Pod):
        return pod
    raw = [json.loads(bytes(one)) for one in (pod.metadata.owner_references, pod.spec.affinity)]
    return re.sub("<msgspec.Raw[^>]*>", "", repr(pod)), raw


@settings(max_examples=150, deadline=None)
@given(obj=OBJECTS, name=st.sampled_from(["", "web"]))
def test_an_object_that_was_taken_apart_reads_as_the_whole_does(obj: object, name: str) -> None:
    """Odd objects take another road to the same result."""
    request = {"uid": "u", "kind": {"kind": "Pod"}, "operation": "CREATE", "name": name, "object": obj}
    body = json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()
    parted, whole = decode(body).request, WholeRequest("u", name=name, object=msgspec.Raw(json.dumps(obj).encode()))
    whole = msgspec.structs.replace(whole, kind=parted.kind)
    assert seen(parted) == seen(whole)


@pytest.mark.parametrize("name", ["plain", "webhook-demo", "rich"])
def test_a_recorded_object_is_there_as_a_whole_and_in_parts(name: str) -> None:
    body = (RECORDED / f"Pod-{name}-CREATE.json").read_bytes()
    request = decode(body).request
    assert request.metadata.annotations == json.loads(body)["request"]["object"]["metadata"]["annotations"]
    assert shown(request.pod) == shown(decode_pod(request.object))
    assert json.loads(bytes(request.object)) == json.loads(body)["request"]["object"]


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
