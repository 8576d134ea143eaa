"""The status of ResourceClaims: what the API server answers to entries of devices, and how a claim's life goes on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.resource_claims import (
    ALLOCATION,
    DEVICE,
    RESULTS,
    allocate,
    apply_devices,
    claim_path,
    create_claim,
    patch_status,
    table,
)

JSON = dict[str, Any]
SHARE = "6b1fc7a8-3d5d-4c4a-9f6e-0d4c2f3b8a11"
ENTRY = "status.devices[0]"
NOT_UUID = "must be a lowercase UUID in 8-4-4-4-12 format"
PRINTED = '{"driver":"d.example.com","pool":"n1","device":"dev-0","conditions":null}'
NOT_CIDR = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
KEY = '[device="dev-0",driver="d.example.com",pool="n1"]'
UNTYPED = "failed to create typed patch object (/claim; resource.k8s.io/v1, Kind=ResourceClaim): .status.devices"
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Reason",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.fixture
def claim(served: Any, namespace: str) -> str:
    """The namespace of an allocated claim."""
    create_claim(served, namespace)
    allocate(served, namespace)
    return namespace


def without(obj: JSON, *names: str) -> JSON:
    return {name: value for name, value in obj.items() if name not in names}


def printed(**fields: str) -> str:
    """The identity of a device as messages print it."""
    shown = {"driver": DEVICE["driver"], "pool": "n1", "device": "dev-0", "shareID": "", **fields}
    names = {"driver": "Driver", "pool": "Pool", "device": "Device", "shareID": "ShareID"}
    inner = ",".join(f'"{names[name]}":"{value}"' for name, value in shown.items())
    return f"Invalid value: {{{inner}}}: must be an allocated device in the claim"


def refusal(answer: Any) -> str:
    assert answer.status == 422, answer.body
    assert answer.body["reason"] == "Invalid"
    text = str(answer.body["message"])
    assert text.startswith('ResourceClaim.resource.k8s.io "claim" is invalid: ')
    return text.removeprefix('ResourceClaim.resource.k8s.io "claim" is invalid: ')


def test_a_status_is_not_set_by_creation(served: Any, namespace: str) -> None:
    created = create_claim(served, namespace, status={"allocation": ALLOCATION})
    assert created["status"] == {}
    assert created["spec"]["devices"]["requests"] == [
        {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}}
    ]


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("10.0.0.5", NOT_CIDR),
        ("fe80::1%eth0/64", NOT_CIDR),
        ("10.0.0.5/33", NOT_CIDR),
        ("10.0.0.5/24/24", NOT_CIDR),
        ("10.0.0.5/+24", NOT_CIDR),
        ("1.2.3/24", NOT_CIDR),
        ("", NOT_CIDR),
        ("2001:DB8::5/64", 'must be in canonical form ("2001:db8::5/64")'),
        ("2001:db8:0:0::5/64", 'must be in canonical form ("2001:db8::5/64")'),
        ("10.0.0.05/24", 'must be in canonical form ("10.0.0.5/24")'),
        ("::ffff:10.0.0.5/120", 'must be in canonical form ("10.0.0.5/24")'),
        ("10.0.0.5/24", ""),
        ("2001:db8::5/64", ""),
        ("0.0.0.0/0", ""),
    ],
)
def test_addresses_have_a_prefix_and_the_canonical_form(served: Any, claim: str, address: str, fault: str) -> None:
    answer = patch_status(served, claim, {"devices": [{**DEVICE, "networkData": {"ips": [address]}}]})
    if fault:
        assert refusal(answer) == f'{ENTRY}.networkData.ips[0]: Invalid value: "{address}": {fault}'
    else:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("network", "fault"),
    [
        ({"ips": ["10.0.0.5/24", "10.0.0.5/24"]}, 'ips[1]: Duplicate value: "10.0.0.5/24"'),
        ({"ips": ["10.0.0.5/24", "10.0.0.5/25"]}, ""),
        ({"ips": [f"10.0.0.{number}/24" for number in range(17)]}, "ips: Too many: 17: must have at most 16 items"),
        ({"ips": [f"10.0.0.{number}/24" for number in range(16)]}, ""),
        ({"interfaceName": "i" * 257}, "interfaceName: Too long: may not be more than 256 bytes"),
        ({"interfaceName": "é" * 129}, "interfaceName: Too long: may not be more than 256 bytes"),
        ({"interfaceName": "i" * 256}, ""),
        ({"hardwareAddress": "i" * 129}, "hardwareAddress: Too long: may not be more than 128 bytes"),
        ({"hardwareAddress": "not a mac !", "interfaceName": "a b/c"}, ""),
        ({}, ""),
    ],
)
def test_network_data_has_limits_and_hardly_a_form(served: Any, claim: str, network: JSON, fault: str) -> None:
    answer = patch_status(served, claim, {"devices": [{**DEVICE, "networkData": network}]})
    if fault:
        assert refusal(answer) == f"{ENTRY}.networkData.{fault}"
    else:
        assert answer.status == 200
        assert answer.body["status"]["devices"] == [{**DEVICE, "conditions": None, "networkData": network}]


def test_unknown_fields_are_dropped_with_a_warning(served: Any, claim: str) -> None:
    entry = {**DEVICE, "request": "r", "networkData": {"interfaceName": "net1", "mtu": 1500}}
    answer = patch_status(served, claim, {"devices": [entry]})
    kept = {**DEVICE, "conditions": None, "networkData": {"interfaceName": "net1"}}
    assert answer.body["status"]["devices"] == [kept]
    assert 'unknown field \\"status.devices[0].networkData.mtu\\"' in answer.headers["Warning"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"device": "x"}, f"{ENTRY}: {printed(device='x')}"),
        ({"driver": "x"}, f"{ENTRY}: {printed(driver='x')}"),
        ({"driver": "D.example.com"}, f"{ENTRY}: {printed(driver='D.example.com')}"),
        ({"shareID": SHARE}, f"{ENTRY}: {printed(shareID=SHARE)}"),
        (
            {"shareID": "x"},
            f'[{ENTRY}: {printed(shareID="x")}, {ENTRY}.shareID: Invalid value: "x": {NOT_UUID}]',
        ),
        ({"driver": ""}, f"[{ENTRY}.driver: Required value, {ENTRY}: {printed(driver='')}]"),
        ({"pool": ""}, f"[{ENTRY}.pool: Required value, {ENTRY}: {printed(pool='')}]"),
    ],
)
def test_an_entry_is_about_an_allocated_device(served: Any, claim: str, change: JSON, fault: str) -> None:
    assert refusal(patch_status(served, claim, {"devices": [{**DEVICE, **change}]})) == fault


@pytest.mark.parametrize(
    "share", ["z" * 36, SHARE.upper(), SHARE.replace("-", ""), f"urn:uuid:{SHARE}", f"{{{SHARE}}}", SHARE[:-1], ""]
)
def test_a_share_has_the_normal_form_of_a_uuid(served: Any, claim: str, share: str) -> None:
    answer = patch_status(served, claim, {"devices": [{**DEVICE, "shareID": share}]})
    assert f'{ENTRY}.shareID: Invalid value: "{share}": {NOT_UUID}' in refusal(answer)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ([1], 'Invalid value: "<value omitted>": must be a valid JSON object'),
        ("x", 'Invalid value: "<value omitted>": must be a valid JSON object'),
        ({"a": "b" * 10240}, "Too long: may not be more than 10240 bytes"),
        ({"a": "b" * (10240 - 8)}, ""),
        ({"a": {"b": [1, None]}}, ""),
        ({}, ""),
    ],
)
def test_data_is_any_object_of_ten_kibibytes(served: Any, claim: str, data: Any, fault: str) -> None:
    answer = apply_devices(served, claim, [{**DEVICE, "data": data}], "m")
    if fault:
        assert refusal(answer) == f"{ENTRY}.data: {fault}"
    else:
        assert answer.body["status"]["devices"][0]["data"] == data


@pytest.mark.parametrize(
    ("conditions", "fault"),
    [
        ([{**CONDITION, "type": f"T{number}"} for number in range(9)], ": Too many: 9: must have at most 8 items"),
        ([without(CONDITION, "reason")], "[0].reason: Required value"),
        ([{**CONDITION, "reason": ""}], "[0].reason: Required value"),
        ([{**CONDITION, "reason": "a b"}], '[0].reason: Invalid value: "a b": a condition reason must start with'),
        ([{**CONDITION, "reason": "a" * 1025}], "[0].reason: Too long: may not be more than 1024 bytes"),
        ([without(CONDITION, "lastTransitionTime")], "[0].lastTransitionTime: Required value"),
        ([{**CONDITION, "status": "x"}], '[0].status: Unsupported value: "x": supported values: "False", "True"'),
        ([{**CONDITION, "type": "a b"}], '[0].type: Invalid value: "a b": name part must consist of'),
        ([{**CONDITION, "message": "a" * 32769}], "[0].message: Too long: may not be more than 32768 bytes"),
        ([{**CONDITION, "observedGeneration": -1}], "[0].observedGeneration: Invalid value: -1: must be greater"),
        ([CONDITION, CONDITION], '[1]: Duplicate value: "Ready"'),
        ([{**CONDITION, "type": ""}], "[0].type: Required value: is required"),
    ],
)
def test_conditions_follow_their_rules(served: Any, claim: str, conditions: list[JSON], fault: str) -> None:
    answer = patch_status(served, claim, {"devices": [{**DEVICE, "conditions": conditions}]})
    assert refusal(answer).startswith(f"{ENTRY}.conditions{fault}")


def test_a_device_has_one_entry(served: Any, claim: str) -> None:
    answer = patch_status(served, claim, {"devices": [DEVICE, DEVICE]})
    assert refusal(answer) == f"status.devices[1]: Duplicate value: {PRINTED}"
    full = {"networkData": {"ips": ["10.0.0.1/24"], "interfaceName": "e"}, "conditions": [CONDITION], **DEVICE}
    assert refusal(patch_status(served, claim, {"devices": [DEVICE, full]})) == (
        'status.devices[1]: Duplicate value: {"driver":"d.example.com","pool":"n1","device":"dev-0","conditions":'
        '[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Reason","message":""}],'
        '"networkData":{"interfaceName":"e","ips":["10.0.0.1/24"]}}'
    )
    applied = apply_devices(served, claim, [DEVICE, DEVICE], "m")
    assert (applied.status, applied.body["message"]) == (500, f"{UNTYPED}: duplicate entries for key {KEY}")


def test_an_apply_with_an_unknown_field_is_refused(served: Any, claim: str) -> None:
    answer = apply_devices(served, claim, [{**DEVICE, "networkData": {"mtu": 1500}}], "m")
    text = f"{UNTYPED}{KEY}.networkData.mtu: field not declared in schema"
    assert (answer.status, answer.body["message"]) == (500, text)


def test_entries_that_are_stored_are_checked_by_every_write(served: Any, claim: str) -> None:
    patch_status(served, claim, {"devices": [DEVICE]})
    devices = [DEVICE, {**DEVICE, "device": "dev-1", "networkData": {"ips": ["x"]}}]
    assert refusal(patch_status(served, claim, {"devices": devices})).startswith("status.devices[1].networkData.ips[0]")


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        ({"request": "x"}, 'request: Invalid value: "x": must be the name of a request in the claim'),
        ({"driver": ""}, "driver: Required value"),
        ({"pool": ""}, "pool: Required value"),
        ({"device": "A_"}, 'device: Invalid value: "A_": a lowercase RFC 1123 label'),
        ({"driver": "D_"}, 'driver: Invalid value: "D_": an RFC 1123 subdomain'),
        ({"driver": "d" * 64}, "driver: Too long: may not be more than 63 characters"),
        ({"pool": "a/B_"}, 'pool: Invalid value: "B_": segment 1: a lowercase RFC 1123 subdomain'),
        ({"pool": "/b"}, 'pool: Invalid value: "/b": segment 0: must not be empty'),
        ({"pool": "P_", "device": "A_"}, 'device: Invalid value: "A_": a lowercase RFC 1123 label'),
        ({"shareID": "x"}, f'shareID: Invalid value: "x": {NOT_UUID}'),
        ({"bindingConditions": ["a"]}, "bindingFailureConditions: Invalid value: null: "),
    ],
)
def test_a_new_allocation_is_checked(served: Any, namespace: str, result: JSON, fault: str) -> None:
    create_claim(served, namespace)
    answer = patch_status(served, namespace, {"allocation": {"devices": {"results": [{**RESULTS[0], **result}]}}})
    assert refusal(answer).removeprefix("[").startswith(f"status.allocation.devices.results[0].{fault}")


@pytest.mark.parametrize(
    ("devices", "fault"),
    [
        ({"results": [{**RESULTS[0], "device": f"d{number}"} for number in range(33)]}, "results: Too many: 33: "),
        ({"config": [{"opaque": {"driver": "d", "parameters": {}}}]}, "config[0].source: Required value"),
        (
            {"config": [{"source": "x", "opaque": {"driver": "d", "parameters": {}}}]},
            'config[0].source: Unsupported value: "x": supported values: "FromClaim", "FromClass"',
        ),
    ],
)
def test_the_lists_of_an_allocation_are_checked(served: Any, namespace: str, devices: JSON, fault: str) -> None:
    create_claim(served, namespace)
    answer = patch_status(served, namespace, {"allocation": {"devices": devices}})
    assert refusal(answer).startswith(f"status.allocation.devices.{fault}")


def test_access_of_administrators_needs_a_label_of_the_namespace(served: Any, namespace: str) -> None:
    create_claim(served, namespace)
    allocation = {"devices": {"results": [{**RESULTS[0], "adminAccess": True}]}}
    assert refusal(patch_status(served, namespace, {"allocation": allocation})) == (
        "status.allocation.devices.results[0].adminAccess: Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
    )
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    served.request("PATCH", f"/api/v1/namespaces/{namespace}", labels, content_type="application/merge-patch+json")
    served.until(f"/api/v1/namespaces/{namespace}", 200)
    assert patch_status(served, namespace, {"allocation": allocation}).status == 200
    assert patch_status(served, namespace, {"devices": [DEVICE]}).status == 200


def test_an_allocation_is_immutable(served: Any, claim: str) -> None:
    answer = patch_status(served, claim, {"allocation": {"devices": {"results": RESULTS[:1]}}})
    assert refusal(answer) == "status.allocation: Invalid value: null: field cannot be modified once set"


@pytest.mark.parametrize(
    ("consumers", "fault"),
    [
        (
            [{"resource": "pods", "name": "p", "uid": "u"}] * 2,
            'reservedFor[1]: Duplicate value: {"resource":"pods","name":"p","uid":"u"}',
        ),
        (
            [{"resource": "x", "name": "p", "uid": "u"}, {"uid": "u", "name": "q", "resource": "y", "apiGroup": "g"}],
            'reservedFor[1]: Duplicate value: {"apiGroup":"g","resource":"y","name":"q","uid":"u"}',
        ),
        ([{"name": "p", "uid": "u"}], "reservedFor[0].resource: Required value"),
        (
            [{"resource": "pods", "name": "p", "uid": f"u{number}"} for number in range(257)],
            "reservedFor: Too many: 257: must have at most 256 items",
        ),
    ],
)
def test_consumers_are_checked(served: Any, claim: str, consumers: list[JSON], fault: str) -> None:
    assert refusal(patch_status(served, claim, {"reservedFor": consumers})) == f"status.{fault}"


def test_entries_go_with_the_allocation(served: Any, claim: str) -> None:
    reserved = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}], "devices": [DEVICE]}
    assert patch_status(served, claim, reserved).status == 200
    assert refusal(patch_status(served, claim, {"allocation": None})) == (
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    )
    answer = patch_status(served, claim, {"allocation": None, "reservedFor": None})
    assert (answer.status, answer.body["status"]) == (200, {})
    allocation = {"devices": {"results": [{**RESULTS[0], "device": "dev-2"}]}}
    assert patch_status(served, claim, {"allocation": allocation}).body["status"] == {"allocation": allocation}


def test_no_consumer_is_added_to_a_claim_that_is_deleted(served: Any, namespace: str) -> None:
    create_claim(served, namespace, metadata={"name": "claim", "finalizers": ["example.com/hold"]})
    allocate(served, namespace)
    served.request("DELETE", claim_path(namespace, "claim"))
    answer = patch_status(served, namespace, {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]})
    assert refusal(answer).startswith("status.reservedFor: Forbidden: new entries may not be added while")


def test_the_spec_is_immutable_and_the_status_has_its_endpoint(served: Any, claim: str) -> None:
    path = claim_path(claim, "claim")
    merge = "application/merge-patch+json"
    change = {"spec": {"devices": {"requests": [{"name": "x", "exactly": {"deviceClassName": "c"}}]}}}
    answer = served.request("PATCH", path, change, content_type=merge)
    assert refusal(answer) == "spec: Invalid value: null: field is immutable"
    labels = {"metadata": {"labels": {"a": "b"}}, "status": {"allocation": None}}
    assert served.request("PATCH", path, labels, content_type=merge).body["status"]["allocation"] == ALLOCATION
    body = {"metadata": {"labels": {"a": "c"}, "annotations": {"x": "y"}}}
    kept = served.request("PATCH", claim_path(claim, "claim", status=True), body, content_type=merge).body["metadata"]
    assert (kept["labels"], kept.get("annotations")) == ({"a": "b"}, None)


def test_the_column_says_where_a_claim_is(served: Any, namespace: str) -> None:
    held = {"finalizers": ["example.com/hold"]}
    consumer = [{"resource": "pods", "name": "p", "uid": "u"}]
    for name in ("a", "b", "c", "d"):
        create_claim(served, namespace, metadata={"name": name, **held})
    allocate(served, namespace, name="b")
    allocate(served, namespace, name="c", reservedFor=consumer)
    for name in ("c", "d"):
        served.request("DELETE", claim_path(namespace, name))
    assert table(served, claim_path(namespace)) == (
        ["Name", "State", "Age"],
        [["a", "pending"], ["b", "allocated"], ["c", "deleted,allocated,reserved"], ["d", "deleted"]],
    )
    assert "allocated" in served.kubectl("-n", namespace, "get", "resourceclaims", "b").stdout
