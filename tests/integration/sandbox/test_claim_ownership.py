"""Who owns which part of `status.devices`: server-side apply by several managers, and patches that replace the list."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.resource_claims import (
    DEVICE,
    MERGE,
    RESULTS,
    STRATEGIC,
    allocate,
    apply_devices,
    claim_path,
    create_claim,
    patch_status,
)

JSON = dict[str, Any]
KEY = 'k:{"device":"dev-0","driver":"d.example.com","pool":"n1"}'
WHERE = '.status.devices[device="dev-0",driver="d.example.com",pool="n1"]'
KEYS: JSON = {".": {}, "f:device": {}, "f:driver": {}, "f:pool": {}}
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Reason",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
SHARES = ("6b1fc7a8-3d5d-4c4a-9f6e-0d4c2f3b8a11", "7b1fc7a8-3d5d-4c4a-9f6e-0d4c2f3b8a11")


@pytest.fixture
def claim(served: Any, namespace: str) -> str:
    """The namespace of an allocated claim, with an entry of a driver and network data of another manager."""
    create_claim(served, namespace)
    allocate(served, namespace)
    driver = apply_devices(served, namespace, [{**DEVICE, "data": {"a": 1}, "conditions": [CONDITION]}], "driver")
    assert driver.status == 200, driver.body
    network = {"interfaceName": "net1", "ips": ["10.0.0.5/24"]}
    publisher = apply_devices(served, namespace, [{**DEVICE, "networkData": network}], "publisher")
    assert publisher.status == 200, publisher.body
    return namespace


def owned(answer: Any, manager: str) -> JSON | None:
    """What the manager owns of the first entry, None where it is not among the managers of the status."""
    assert answer.status == 200, answer.body
    for entry in answer.body["metadata"]["managedFields"]:
        if (entry["manager"], entry.get("subresource")) == (manager, "status"):
            return dict(entry["fieldsV1"]["f:status"]["f:devices"].get(KEY, {}))
    return None


def first(answer: Any) -> JSON:
    return dict(answer.body["status"]["devices"][0])


def test_managers_own_different_leaves_of_an_entry(served: Any, claim: str) -> None:
    network = {"interfaceName": "net1", "ips": ["10.0.0.5/24"]}
    answer = served.request("GET", claim_path(claim, "claim"))
    assert first(answer) == {**DEVICE, "conditions": [CONDITION], "data": {"a": 1}, "networkData": network}
    leaves = (".", "f:lastTransitionTime", "f:message", "f:reason", "f:status", "f:type")
    condition: JSON = {leaf: {} for leaf in leaves}
    assert owned(answer, "driver") == {**KEYS, "f:data": {}, "f:conditions": {'k:{"type":"Ready"}': condition}}
    assert owned(answer, "publisher") == {**KEYS, "f:networkData": {"f:interfaceName": {}, "f:ips": {}}}


@pytest.mark.parametrize(
    ("entry", "leaf"),
    [
        ({"networkData": {"interfaceName": "net2"}}, "networkData.interfaceName"),
        ({"networkData": {"ips": ["10.0.0.5/24", "10.0.0.6/24"]}}, "networkData.ips"),
        ({"data": {"b": 1}}, "data"),
    ],
)
def test_another_value_of_an_owned_leaf_is_a_conflict(served: Any, claim: str, entry: JSON, leaf: str) -> None:
    owner = "driver" if leaf == "data" else "publisher"
    answer = apply_devices(served, claim, [{**DEVICE, **entry}], "third")
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    conflict = f'conflict with "{owner}" with subresource "status"'
    assert answer.body["message"] == f"Apply failed with 1 conflict: {conflict}: {WHERE}.{leaf}"
    assert answer.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": conflict, "field": f"{WHERE}.{leaf}"}
    ]


def test_force_takes_the_leaf_over(served: Any, claim: str) -> None:
    answer = apply_devices(served, claim, [{**DEVICE, "networkData": {"interfaceName": "net2"}}], "third", force=True)
    assert first(answer)["networkData"] == {"interfaceName": "net2", "ips": ["10.0.0.5/24"]}
    assert owned(answer, "publisher") == {**KEYS, "f:networkData": {"f:ips": {}}}
    assert owned(answer, "third") == {**KEYS, "f:networkData": {"f:interfaceName": {}}}


def test_the_same_value_is_owned_together(served: Any, claim: str) -> None:
    answer = apply_devices(served, claim, [{**DEVICE, "networkData": {"interfaceName": "net1"}}], "third")
    assert owned(answer, "third") == {**KEYS, "f:networkData": {"f:interfaceName": {}}}
    answer = apply_devices(served, claim, None, "third")
    assert owned(answer, "third") is None
    assert first(answer)["networkData"]["interfaceName"] == "net1"


def test_a_leaf_that_is_left_out_goes(served: Any, claim: str) -> None:
    answer = apply_devices(served, claim, [{**DEVICE, "networkData": {"ips": ["10.0.0.5/24"]}}], "publisher")
    assert first(answer)["networkData"] == {"ips": ["10.0.0.5/24"]}
    answer = apply_devices(served, claim, [{**DEVICE, "data": {"a": 1}}], "driver")
    assert first(answer)["conditions"] is None


@pytest.mark.parametrize("devices", [[], None])
def test_an_entry_goes_with_its_last_owner(served: Any, claim: str, devices: list[JSON] | None) -> None:
    answer = apply_devices(served, claim, devices, "publisher")
    assert owned(answer, "publisher") is None
    assert first(answer) == {**DEVICE, "conditions": [CONDITION], "data": {"a": 1}}
    answer = apply_devices(served, claim, devices, "driver")
    assert "devices" not in answer.body["status"]


def test_an_empty_list_takes_nothing_over(served: Any, claim: str) -> None:
    answer = apply_devices(served, claim, [], "third")
    assert owned(answer, "third") is None


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
def test_patches_replace_the_whole_list(served: Any, claim: str, content_type: str) -> None:
    entry = {**DEVICE, "device": "dev-1", "data": {"b": 1}}
    answer = patch_status(served, claim, {"devices": [entry]}, content_type=content_type)
    assert answer.body["status"]["devices"] == [{**entry, "conditions": None}]
    assert owned(answer, "driver") is None


def test_an_updater_owns_what_it_wrote(served: Any, namespace: str) -> None:
    create_claim(served, namespace)
    allocate(served, namespace)
    answer = patch_status(served, namespace, {"devices": [{**DEVICE, "data": {"a": 1}}]})
    assert owned(answer, "python-urllib3") == {**KEYS, "f:conditions": {}, "f:data": {}}
    conflict = apply_devices(served, namespace, [{**DEVICE, "data": {"a": 2}}], "driver")
    updater = 'conflict with "python-urllib3" with subresource "status" using resource.k8s.io/v1'
    assert conflict.body["message"] == f"Apply failed with 1 conflict: {updater}: {WHERE}.data"
    cleared = patch_status(served, namespace, {"devices": []})
    assert "devices" not in cleared.body["status"]
    assert apply_devices(served, namespace, [{**DEVICE, "data": {"a": 2}}], "driver").status == 200


def test_shares_of_a_device_are_entries_of_their_own(served: Any, namespace: str) -> None:
    create_claim(served, namespace)
    results = [{**RESULTS[0], "shareID": share} for share in SHARES]
    allocate(served, namespace, allocation={"devices": {"results": results}})
    for number, share in enumerate(SHARES):
        entry = {**DEVICE, "shareID": share, "data": {"n": number}}
        assert apply_devices(served, namespace, [entry], f"m{number}").status == 200
    answer = served.request("GET", claim_path(namespace, "claim"))
    assert [entry["shareID"] for entry in answer.body["status"]["devices"]] == list(SHARES)
    conflict = apply_devices(served, namespace, [{**DEVICE, "shareID": SHARES[0], "data": {"n": 5}}], "m1")
    assert conflict.status == 409
    assert f'pool="n1",shareID="{SHARES[0]}"].data' in conflict.body["message"]


def test_owners_stay_recorded_when_the_server_drops_entries(served: Any, claim: str) -> None:
    answer = patch_status(served, claim, {"allocation": None})
    assert answer.body["status"] == {}
    assert owned(answer, "driver") is not None


def test_conditions_that_are_null_in_an_update_take_those_of_another_manager(served: Any, namespace: str) -> None:
    """A driver without conditions writes null, which is a field of its own; it owns no condition by that."""
    create_claim(served, namespace)
    allocate(served, namespace)
    claim = served.request("GET", claim_path(namespace, "claim")).body
    claim["status"]["devices"] = [{**DEVICE, "data": {"a": 1}, "conditions": None}]
    path = claim_path(namespace, "claim", status=True)
    put = served.request("PUT", f"{path}?fieldManager=driver", claim)
    assert owned(put, "driver") == {**KEYS, "f:conditions": {}, "f:data": {}}
    applied = apply_devices(served, namespace, [{**DEVICE, "conditions": [CONDITION]}], "publisher")
    assert first(applied) == {**DEVICE, "data": {"a": 1}, "conditions": [CONDITION]}
    assert owned(applied, "driver") == {**KEYS, "f:conditions": {}, "f:data": {}}


@pytest.mark.parametrize("conditions", [{"conditions": None}, {"conditions": []}, {}])
def test_what_a_manager_gives_up_goes_from_a_list_that_another_holds_empty(
    served: Any, namespace: str, conditions: JSON
) -> None:
    """As a driver in Go writes its entry: `conditions: null` is its own then, and nothing in it."""
    create_claim(served, namespace)
    allocate(served, namespace)
    claim = served.request("GET", claim_path(namespace, "claim")).body
    claim["status"]["devices"] = [{**DEVICE, "data": {"a": 1}, **conditions}]
    path = claim_path(namespace, "claim", status=True)
    assert served.request("PUT", f"{path}?fieldManager=driver", claim).status == 200
    assert apply_devices(served, namespace, [{**DEVICE, "conditions": [CONDITION]}], "other").status == 200
    answer = apply_devices(served, namespace, None, "other")
    assert answer.status == 200, answer.body
    (entry,) = answer.body["status"]["devices"]
    assert not entry.get("conditions")
    assert entry["data"] == {"a": 1}
