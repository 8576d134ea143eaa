"""ResourceClaims in Pods: what a spec may ask for, and what a status says about them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.resource_claims import MERGE, STRATEGIC

JSON = dict[str, Any]
DIRECT = {"name": "a", "resourceClaimName": "x"}
TEMPLATE = {"name": "b", "resourceClaimTemplateName": "y"}
BOTH = [DIRECT, TEMPLATE]
UNKNOWN = "must be one of the names in pod.spec.resourceClaims"
SUBDOMAIN = "a lowercase RFC 1123 subdomain"
MAPPING = {"containerName": "c", "resourceName": "example.com/foo", "requestName": "container-0-request-0"}
EXTENDED = {"resourceClaimName": "claim", "requestMappings": [MAPPING]}


def pod(claims: list[JSON], used: list[JSON], **metadata: Any) -> JSON:
    resources: JSON = {"claims": used, "limits": {"example.com/foo": "1"}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    return {"metadata": {"name": "p", **metadata}, "spec": {"resourceClaims": claims, "containers": containers}}


def create(served: Any, namespace: str, body: JSON) -> Any:
    return served.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


@pytest.mark.parametrize(
    "used", [[], [{"name": "a"}, {"name": "b"}], [{"name": "a", "request": "r"}, {"name": "a", "request": "q"}]]
)
def test_claims_need_not_exist_when_a_pod_is_created(served: Any, namespace: str, used: list[JSON]) -> None:
    answer = create(served, namespace, pod(BOTH, used))
    assert answer.status == 201, answer.body
    assert answer.body["spec"]["resourceClaims"] == BOTH


@pytest.mark.parametrize(
    ("claims", "used", "fault"),
    [
        ([{"name": "a"}], [], 'resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":null,"Resource'),
        ([{**DIRECT, **TEMPLATE}], [], 'resourceClaims[0]: Invalid value: {"Name":"b","ResourceClaimName":"x","Res'),
        ([DIRECT, DIRECT], [], 'resourceClaims[1].name: Duplicate value: "a"'),
        ([{"resourceClaimName": "x"}], [], "resourceClaims[0].name: Required value"),
        ([{**DIRECT, "name": "A_"}], [], 'resourceClaims[0].name: Invalid value: "A_": a lowercase RFC 1123 label'),
        (
            [{**DIRECT, "resourceClaimName": "X_"}],
            [],
            f'resourceClaims[0].resourceClaimName: Invalid value: "X_": {SUBDOMAIN}',
        ),
        (
            [{"name": "a", "resourceClaimTemplateName": "X_"}],
            [],
            f'resourceClaims[0].resourceClaimTemplateName: Invalid value: "X_": {SUBDOMAIN}',
        ),
        (
            BOTH,
            [{"name": "z"}],
            f'containers[0].resources.claims[0]: Not found: "z": {UNKNOWN}: a, b',
        ),
        (
            [],
            [{"name": "z"}],
            f'containers[0].resources.claims[0]: Not found: "z": {UNKNOWN} which is empty',
        ),
        (BOTH, [{}], "containers[0].resources.claims[0]: Required value"),
        (BOTH, [{"name": "a"}, {"name": "a"}], 'containers[0].resources.claims[1]: Duplicate value: "a"'),
        (
            BOTH,
            [{"name": "a"}, {"name": "a", "request": "r"}],
            'containers[0].resources.claims[1]: Duplicate value: "a"',
        ),
        (
            BOTH,
            [{"name": "a", "request": "r"}, {"name": "a"}],
            'containers[0].resources.claims[1]: Duplicate value: "a"',
        ),
        (BOTH, [{"name": "a", "request": "r"}] * 2, 'containers[0].resources.claims[1]: Duplicate value: "a/r"'),
        (
            BOTH,
            [{"name": "a", "request": "R_"}],
            'containers[0].resources.claims[0].request: Invalid value: "R_": a lowercase RFC 1123 label',
        ),
    ],
)
def test_a_pod_is_refused(served: Any, namespace: str, claims: list[JSON], used: list[JSON], fault: str) -> None:
    answer = create(served, namespace, pod(claims, used))
    assert answer.status == 422, answer.body
    assert answer.body["message"].startswith(f'Pod "p" is invalid: spec.{fault}')


def test_a_mirror_pod_has_no_claims(served: Any, namespace: str) -> None:
    body = pod(BOTH, [], annotations={"kubernetes.io/config.mirror": "x"})
    body["spec"]["nodeName"] = "n1"
    answer = create(served, namespace, body)
    assert answer.body["message"] == 'Pod "p" is invalid: []: Forbidden: static pods do not support resource claims'


@pytest.fixture
def stored(served: Any, namespace: str) -> str:
    """The path of a stored Pod's status."""
    answer = create(served, namespace, pod(BOTH, [{"name": "a"}]))
    assert answer.status == 201, answer.body
    return f"/api/v1/namespaces/{namespace}/pods/p/status"


def patch(served: Any, path: str, status: JSON, content_type: str = STRATEGIC) -> Any:
    return served.request("PATCH", path, {"status": status}, content_type=content_type)


def test_statuses_of_claims_merge_by_name(served: Any, stored: str) -> None:
    patch(served, stored, {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "p-a-x"}]})
    answer = patch(served, stored, {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x"}]})
    found = {entry["name"]: entry["resourceClaimName"] for entry in answer.body["status"]["resourceClaimStatuses"]}
    assert found == {"a": "p-a-x", "b": "p-b-x"}
    answer = patch(served, stored, {"resourceClaimStatuses": [{"$patch": "delete", "name": "b"}]})
    assert [entry["name"] for entry in answer.body["status"]["resourceClaimStatuses"]] == ["a"]
    answer = patch(served, stored, {"resourceClaimStatuses": [{"$patch": "delete", "name": "a"}]})
    assert "resourceClaimStatuses" not in answer.body["status"]


def test_the_claim_of_extended_resources_merges_by_fields_and_its_list_is_replaced(served: Any, stored: str) -> None:
    assert patch(served, stored, {"extendedResourceClaimStatus": EXTENDED}).status == 200
    answer = patch(served, stored, {"extendedResourceClaimStatus": {"resourceClaimName": "other"}})
    assert answer.body["status"]["extendedResourceClaimStatus"] == {**EXTENDED, "resourceClaimName": "other"}
    mapping = {**MAPPING, "requestName": "container-0-request-1"}
    answer = patch(served, stored, {"extendedResourceClaimStatus": {"requestMappings": [mapping]}})
    assert answer.body["status"]["extendedResourceClaimStatus"]["requestMappings"] == [mapping]


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (
            {"resourceClaimStatuses": [{"name": "z"}]},
            'resourceClaimStatuses[0].name: Invalid value: "z": must match the name of an entry in `spec.resourceClaims`',
        ),
        (
            {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "X_"}]},
            f'resourceClaimStatuses[0].resourceClaimName: Invalid value: "X_": {SUBDOMAIN}',
        ),
        ({"resourceClaimStatuses": [{"name": "a"}] * 2}, 'resourceClaimStatuses[1].name: Duplicate value: "a"'),
        (
            {"extendedResourceClaimStatus": {"requestMappings": [MAPPING]}},
            "extendedResourceClaimStatus.resourceClaimName: Required value",
        ),
        (
            {"extendedResourceClaimStatus": {**EXTENDED, "requestMappings": []}},
            "extendedResourceClaimStatus.requestMappings: Required value: at least one request mapping is required",
        ),
        (
            {"extendedResourceClaimStatus": {**EXTENDED, "requestMappings": [{**MAPPING, "containerName": "x"}]}},
            'extendedResourceClaimStatus.requestMappings[0].containerName: Invalid value: "x": must match the name',
        ),
        (
            {"extendedResourceClaimStatus": {**EXTENDED, "requestMappings": [{**MAPPING, "resourceName": "x"}]}},
            'extendedResourceClaimStatus.requestMappings[0].resourceName: Invalid value: "x": must match the extended',
        ),
        (
            {"extendedResourceClaimStatus": {**EXTENDED, "requestMappings": [{**MAPPING, "requestName": "X_"}]}},
            'extendedResourceClaimStatus.requestName: Invalid value: "X_": a lowercase RFC 1123 label',
        ),
    ],
)
def test_a_status_is_refused(served: Any, stored: str, status: JSON, fault: str) -> None:
    answer = patch(served, stored, status, MERGE)
    assert answer.status == 422, answer.body
    text = answer.body["message"]
    assert text.removeprefix('Pod "p" is invalid: ').removeprefix("[").startswith(f"status.{fault}")


def test_claims_of_a_pod_do_not_change(served: Any, namespace: str, stored: str) -> None:
    change = {"spec": {"resourceClaims": [{"name": "q", "resourceClaimName": "z"}]}}
    answer = served.request("PATCH", stored.removesuffix("/status"), change, content_type=STRATEGIC)
    assert answer.status == 422
    assert "pod updates may not change fields other than" in answer.body["message"]
