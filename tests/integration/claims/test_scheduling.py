"""What a scheduler and a controller manager write for Pods that ask for devices: the same of real ones and of stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.devtools.sandbox.standins.podstatus import EXIT_ANNOTATION
from app.kube.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from app.kube.retry import get_or_none
from tests.support.control_plane import NAMESPACE, NODE_NAMES, ControlPlane
from tests.support.networked_pods import (
    CLAIM,
    CLASS,
    DEVICES,
    DRIVER,
    RESOURCE,
    pod,
    pod_by_claim,
    pod_by_resource,
    pod_by_template,
    prepare,
    resource_slice,
)
from tests.support.waiting import eventually

JSON = dict[str, Any]
PROTECTED = ["resource.kubernetes.io/delete-protection"]
BY_ROUTE = {"by-template": pod_by_template, "by-claim": pod_by_claim, "by-resource": pod_by_resource}


@pytest.fixture
async def cluster(control_plane: ControlPlane) -> ControlPlane:
    """With devices on both nodes."""
    await prepare(control_plane.client, NAMESPACE)
    for node in NODE_NAMES:
        await control_plane.client.create(RESOURCE_SLICES, resource_slice(node))
    return control_plane


async def create(cluster: ControlPlane, body: JSON) -> None:
    await cluster.client.create(PODS, body, namespace=NAMESPACE)


async def until(cluster: ControlPlane, name: str, holds: Callable[[JSON], Any]) -> JSON:
    """The Pod, as soon as this holds."""
    look = lambda: get_or_none(cluster.client, PODS, name, namespace=NAMESPACE)  # noqa: E731
    found = await eventually(look, lambda one: one is not None and holds(one))
    assert found is not None
    return found


async def running(cluster: ControlPlane, name: str) -> JSON:
    return await until(cluster, name, lambda one: one["status"].get("phase") == "Running")


async def claim_of(cluster: ControlPlane, name: str) -> JSON:
    return await cluster.client.get(RESOURCE_CLAIMS, name, namespace=NAMESPACE)


async def claims(cluster: ControlPlane) -> dict[str, JSON]:
    return {one["metadata"]["name"]: one for one in (await cluster.client.list_page(RESOURCE_CLAIMS)).items}


def unschedulable(found: JSON) -> str:
    conditions = found["status"].get("conditions") or []
    return next((one.get("message", "") for one in conditions if one.get("reason") == "Unschedulable"), "")


def reserved(owner: JSON) -> list[JSON]:
    return [{"resource": "pods", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]


def owned_by(owner: JSON) -> list[JSON]:
    metadata = owner["metadata"]
    return [{"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}]


def on_the_node(found: JSON) -> JSON:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [found["spec"]["nodeName"]]}]}
    return {"nodeSelectorTerms": [term]}


def devices_of(claim: JSON) -> set[tuple[str, str]]:
    results = claim["status"]["allocation"]["devices"]["results"]
    assert {one["driver"] for one in results} == {DRIVER}
    return {(one["pool"], one["device"]) for one in results}


def requested(name: str, count: int = 1) -> JSON:
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
    return {"devices": {"requests": [{"name": name, "exactly": exactly}]}}


async def test_each_route_leads_to_a_claim_that_is_allocated_on_the_node(cluster: ControlPlane) -> None:
    found = {}
    for route in BY_ROUTE.values():
        await create(cluster, route())
    for name in BY_ROUTE:
        found[name] = await running(cluster, name)
    by_template, by_claim, by_resource = found.values()

    # The claim of a template.
    assert "extendedResourceClaimStatus" not in by_template["status"]
    (status,) = by_template["status"]["resourceClaimStatuses"]
    made = await claim_of(cluster, status["resourceClaimName"])
    assert status["name"] == "net"
    assert made["metadata"]["generateName"] == "by-template-net-"
    assert made["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "net"}
    assert made["metadata"]["ownerReferences"] == owned_by(by_template)
    assert made["spec"] == requested("vf")

    # The claim that the Pod names is in no status of the Pod.
    assert {"resourceClaimStatuses", "extendedResourceClaimStatus"}.isdisjoint(by_claim["status"])
    direct = await claim_of(cluster, CLAIM)
    assert "ownerReferences" not in direct["metadata"]

    # The claim for an extended resource.
    assert "resourceClaimStatuses" not in by_resource["status"]
    extended = by_resource["status"]["extendedResourceClaimStatus"]
    special = await claim_of(cluster, extended["resourceClaimName"])
    mapping = {"containerName": "main", "resourceName": RESOURCE, "requestName": "container-0-request-0"}
    assert extended["requestMappings"] == [mapping]
    assert special["metadata"]["generateName"] == "by-resource-extended-resources-"
    assert special["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert special["metadata"]["ownerReferences"] == owned_by(by_resource)
    assert special["spec"] == requested("container-0-request-0")

    every = ((made, by_template, "vf"), (direct, by_claim, "vf"), (special, by_resource, "container-0-request-0"))
    for claim, user, request in every:
        assert claim["metadata"]["finalizers"] == PROTECTED
        assert claim["status"]["reservedFor"] == reserved(user)
        allocation = claim["status"]["allocation"]
        assert allocation["nodeSelector"] == on_the_node(user)
        assert set(allocation) == {"allocationTimestamp", "devices", "nodeSelector"}
        (result,) = allocation["devices"]["results"]
        expected = {"request": request, "driver": DRIVER, "pool": user["spec"]["nodeName"], "device": result["device"]}
        assert result == expected
    devices = [devices_of(claim) for claim, _, _ in every]
    assert len(set[tuple[str, str]]().union(*devices)) == 3


async def test_an_extended_resource_of_several_containers_is_one_claim(cluster: ControlPlane) -> None:
    body = pod_by_resource()
    first = body["spec"]["containers"][0]
    amounts = {"limits": {RESOURCE: "2"}, "requests": {RESOURCE: "2"}}
    body["spec"]["containers"] = [
        {"name": "aside", "image": "busybox"},
        first,
        {**first, "name": "two", "resources": amounts},
    ]
    await create(cluster, body)
    found = await running(cluster, "by-resource")
    extended = found["status"]["extendedResourceClaimStatus"]
    claim = await claim_of(cluster, extended["resourceClaimName"])
    assert extended["requestMappings"] == [
        {"containerName": "main", "resourceName": RESOURCE, "requestName": "container-1-request-0"},
        {"containerName": "two", "resourceName": RESOURCE, "requestName": "container-2-request-0"},
    ]
    wanted = [*requested("container-1-request-0")["devices"]["requests"]]
    wanted += requested("container-2-request-0", 2)["devices"]["requests"]
    assert claim["spec"] == {"devices": {"requests": wanted}}
    assert len(devices_of(claim)) == 3


async def test_what_no_node_has_is_waited_for(cluster: ControlPlane) -> None:
    amount = {RESOURCE: str(DEVICES)}
    for name in ("first", "second", "third"):
        await create(cluster, pod(name, {"limits": amount, "requests": amount}))
        if name != "third":
            await running(cluster, name)
    message = unschedulable(await until(cluster, "third", unschedulable))
    assert message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")
    await cluster.client.delete(PODS, "first", namespace=NAMESPACE, grace_period_seconds=0)
    await running(cluster, "third")


@pytest.mark.parametrize("end", ["deleted", "succeeded"])
@pytest.mark.parametrize("name", BY_ROUTE)
async def test_the_claim_of_a_pod_that_is_over_is_free_or_gone(cluster: ControlPlane, name: str, end: str) -> None:
    body = BY_ROUTE[name]()
    body["spec"]["restartPolicy"] = "Never"
    await create(cluster, body)
    await running(cluster, name)
    assert len(await claims(cluster)) == (1 if name == "by-claim" else 2)
    if end == "deleted":
        await cluster.client.delete(PODS, name, namespace=NAMESPACE, grace_period_seconds=0)
    else:
        patch = {"metadata": {"annotations": {EXIT_ANNOTATION: "0"}}}
        await cluster.client.patch(PODS, name, patch, patch_type="merge", namespace=NAMESPACE)

    async def left() -> JSON:
        """What is said of each claim, and what holds it; two writes clear it."""
        found = (await claims(cluster)).items()
        return {key: {**(one.get("status") or {}), "held": one["metadata"].get("finalizers")} for key, one in found}

    await eventually(left, lambda found: found == {CLAIM: {"held": None}})


async def test_a_claim_that_two_pods_name_is_reserved_for_both(cluster: ControlPlane) -> None:
    for name in ("one", "two"):
        await create(cluster, pod_by_claim(name))
    found = [await running(cluster, name) for name in ("one", "two")]
    claim = await claim_of(cluster, CLAIM)
    assert sorted(one["name"] for one in claim["status"]["reservedFor"]) == ["one", "two"]
    assert len({one["spec"]["nodeName"] for one in found}) == 1


async def test_devices_of_one_claim_agree_in_an_attribute(cluster: ControlPlane) -> None:
    exactly = {"deviceClassName": CLASS}
    spec = {
        "devices": {
            "requests": [{"name": "a", "exactly": exactly}, {"name": "b", "exactly": exactly}],
            "constraints": [{"requests": ["a", "b"], "matchAttribute": "example.com/group"}],
        }
    }
    await cluster.client.create(RESOURCE_CLAIMS, RESOURCE_CLAIMS.body({"name": "pair"}, spec=spec), namespace=NAMESPACE)
    await create(cluster, pod_by_claim("paired", "pair"))
    await running(cluster, "paired")
    claim = await claim_of(cluster, "pair")
    assert [one["request"] for one in claim["status"]["allocation"]["devices"]["results"]] == ["a", "b"]
    indexes = sorted(int(name[-1]) for _, name in devices_of(claim))
    assert indexes in ([0, 2], [1, 3])
