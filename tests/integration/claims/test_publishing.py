"""Network data of devices: by the three ways from a Pod to its claims, and again with each start of the sandbox."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from app.kube.resources import NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.support.claims import NAMESPACE, OURS, VF, ClaimsCluster, attached, entry, told
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio


async def test_a_claim_by_name(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1")
    async with cluster.controller() as (client, _):
        pod = await cluster.pod("p", "c")
        await cluster.claim("c", pod, "vf1")
        await cluster.attach("p", attached("10.0.0.5"))
        found = (await eventually(lambda: cluster.entries("c")))["vf1"]
        said = told(found)
        assert found == entry(
            networkData={"interfaceName": "net1", "hardwareAddress": "02:00:00:00:00:01", "ips": ["10.0.0.5/24"]},
            conditions=[said],
        )
        assert (said["status"], said["reason"]) == ("True", "Published")
        assert "net1 of network default/net" in said["message"]
        assert client.applied == {"c": 1}
        assert client.others == 0, "it reads caches alone"


async def test_addresses_outside_of_the_network_are_withheld_and_told(cluster: ClaimsCluster) -> None:
    """The author of the annotation may write any address: what another attachment, or none, has is not published."""
    await cluster.attachment()
    await cluster.slice("vf1", "vf2")
    async with cluster.controller(events=True, excluded=(ip_network("10.0.0.128/25"),)):
        pod = await cluster.pod("p", "c")
        await cluster.claim("c", pod, "vf1")
        await cluster.attach("p", attached("10.96.0.1"))
        found = (await eventually(lambda: cluster.entries("c")))["vf1"]
        assert found["networkData"] == {"interfaceName": "net1", "hardwareAddress": "02:00:00:00:00:01"}
        assert told(found)["reason"] == "AddressesOutsideNetwork"
        assert "not published: 10.96.0.1, outside the subnets of network default/net" in told(found)["message"]
        await eventually(lambda: cluster.events("AddressesOutsideNetwork"))
        await cluster.attach("p", attached("10.0.0.200"))
        await eventually(lambda: cluster.entries("c"), lambda found: "10.0.0.200" in told(found["vf1"])["message"])
        assert await cluster.ips("c") == []
        other = await cluster.pod("q", "d", networks="open")
        await cluster.claim("d", other, "vf2")
        await cluster.attachment("open", ipam={"type": "dhcp"})
        await cluster.attach("q", attached("10.0.0.5", network="default/open", pci="0000:03:00.2"))
        found = await eventually(lambda: cluster.entries("d"), lambda found: "vf2" in found)
        assert told(found["vf2"])["reason"] == "SubnetsUnknown"
    async with cluster.controller(unconfined=("default/open",)):
        assert await eventually(lambda: cluster.ips("d", "vf2")) == ["10.0.0.5/32"]


async def test_a_claim_of_a_template(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1", "vf2")
    async with cluster.controller() as (client, _):
        pod = await cluster.pod("p", "p-r0-x", "p-r1-y", template=True, networks="net,net")
        await cluster.claim("p-r0-x", pod, "vf1")
        await cluster.claim("p-r1-y", pod, "vf2")
        second = attached("10.0.0.6", interface="net2", pci="0000:03:00.2")
        await cluster.attach("p", attached("10.0.0.5"), second)
        assert await eventually(lambda: cluster.ips("p-r0-x")) == ["10.0.0.5/24"]
        assert await eventually(lambda: cluster.ips("p-r1-y", "vf2")) == ["10.0.0.6/24"]
        assert client.applied == {"p-r0-x": 1, "p-r1-y": 1}


async def test_the_claim_for_extended_resources(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1", "vf2")
    async with cluster.controller() as (client, _):
        pod = await cluster.pod("p", networks="net,net", extended="p-extended-resources-x")
        await cluster.claim("p-extended-resources-x", pod, "vf1", "vf2")
        # Without device-info: the n-th network has the n-th device.
        entries = attached("10.0.0.5", pci=""), attached("10.0.0.6", interface="net2", pci="")
        await cluster.attach("p", *entries)
        found = await eventually(lambda: cluster.entries("p-extended-resources-x"), lambda one: len(one) == 2)
        assert [found[one]["networkData"]["interfaceName"] for one in ("vf1", "vf2")] == ["net1", "net2"]
        assert client.applied == {"p-extended-resources-x": 1}


async def test_a_new_sandbox_has_other_addresses(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1")
    pod = await cluster.pod("p", "c")
    await cluster.claim("c", pod, "vf1")
    async with cluster.controller() as (client, _):
        for number in range(5, 9):
            await cluster.attach("p", attached(f"10.0.0.{number}"))
            await eventually(lambda number=number: cluster.ips("c"), [f"10.0.0.{number}/24"].__eq__)
        assert client.applied == {"c": 4}


@pytest.mark.parametrize("late", [False, True])
async def test_a_claim_that_ends_during_a_write_is_forgotten(cluster: ClaimsCluster, *, late: bool) -> None:
    """Before the API server takes the write, or before its answer comes."""
    await cluster.attachment()
    await cluster.slice("vf1")
    ended: list[str] = []
    async with cluster.controller() as (client, _):
        apply = client.apply

        async def end(name: str) -> None:
            await cluster.admin.delete(RESOURCE_CLAIMS, name, namespace=NAMESPACE)
            await eventually(lambda: cluster.publisher.caches.claims.get(NAMESPACE, name) is None)
            ended.append(name)

        async def answered_late(resource: Any, name: str, body: Any, **more: Any) -> Any:
            answer = await apply(resource, name, body, **more)
            await end(name)
            return answer

        if late:
            client.apply = answered_late  # type: ignore[method-assign]  # the delay is between client and API server
        else:
            client.before = end
        pod = await cluster.pod("p", "c")
        await cluster.claim("c", pod, "vf1")
        await cluster.attach("p", attached("10.0.0.5"))
        await eventually(lambda: ended)
    assert ended == ["c"]
    writing = cluster.publisher.writing
    assert (writing._applied, [*writing._rejected]) == ({}, [])


async def test_what_comes_in_any_order(cluster: ClaimsCluster) -> None:
    """Each of them wakes the Pod: its status, the allocation, the slice, the attachment."""
    async with cluster.controller() as (client, _):
        pod = await cluster.pod("p", "c")
        await cluster.attach("p", attached("10.0.0.5"))
        await cluster.claim("c", pod, "vf1")
        await cluster.slice("vf1")
        found = (await eventually(lambda: cluster.entries("c")))["vf1"]
        assert told(found)["reason"] == "SubnetsUnknown"
        assert "not published: 10.0.0.5: no subnets are known of network default/net" in told(found)["message"]
        await cluster.attachment()
        await eventually(lambda: cluster.ips("c"), ["10.0.0.5/24"].__eq__)
        after = (await cluster.entries("c"))["vf1"]
        assert told(after)["reason"] == "Published"
        assert told(after)["lastTransitionTime"] == told(found)["lastTransitionTime"]
        assert client.applied == {"c": 2}


async def test_a_device_that_is_gone_from_the_pod_is_released(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1", "vf2")
    pod = await cluster.pod("p", "c", networks="net,net")
    await cluster.claim("c", pod, "vf1", "vf2")
    await cluster.apply("c", [entry(data={"of": "the driver"})])
    async with cluster.controller():
        second = attached("10.0.0.6", interface="net2", pci="0000:03:00.2")
        await cluster.attach("p", attached("10.0.0.5"), second)
        await eventually(lambda: cluster.entries("c"), lambda found: len(found) == 2)
        await cluster.attach("p")
        await eventually(lambda: cluster.entries("c"), {"vf1": entry(data={"of": "the driver"})}.__eq__)
        assert OURS not in await cluster.managers("c")


async def test_slices_that_are_away_for_a_while_release_nothing(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1")
    pod = await cluster.pod("p", "c")
    await cluster.claim("c", pod, "vf1")
    async with cluster.controller() as (client, _):
        await cluster.attach("p", attached("10.0.0.5", pci=""))
        await eventually(lambda: cluster.ips("c"))
        await cluster.remove(RESOURCE_SLICES, f"n1-{VF}-1")
        other = await cluster.pod("q", "d")
        await cluster.claim("d", other, "vf1")
        await cluster.attach("q", attached("10.0.0.9", pci=""))
        await cluster.slice("vf1", generation=2)
        await eventually(lambda: cluster.ips("d"))
        assert await cluster.ips("c") == ["10.0.0.5/24"]
        assert client.applied == {"c": 1, "d": 1}


async def test_a_shared_claim_has_no_network_data(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1")
    pod, other = await cluster.pod("p", "c"), await cluster.pod("q", "c")
    made = await cluster.claim("c", pod, "vf1")
    async with cluster.controller(events=True):
        await cluster.attach("p", attached("10.0.0.5"))
        await eventually(lambda: cluster.ips("c"))
        made = await cluster.get("c")
        consumer = {"resource": "pods", "name": "q", "uid": other["metadata"]["uid"]}
        made["status"]["reservedFor"].append(consumer)
        await cluster.put(made)
        await eventually(lambda: cluster.entries("c"), {}.__eq__)


async def test_a_claim_that_is_replaced_by_one_of_its_name(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1", "vf2")
    pod = await cluster.pod("p", "c")
    await cluster.claim("c", pod, "vf1")
    async with cluster.controller() as (client, _):
        await cluster.attach("p", attached("10.0.0.5"))
        await eventually(lambda: cluster.ips("c"))
        await cluster.remove(PODS, "p")
        await cluster.remove(RESOURCE_CLAIMS, "c")
        pod = await cluster.pod("p", "c")
        await cluster.claim("c", pod, "vf2")
        await cluster.attach("p", attached("10.0.0.7", pci="0000:03:00.2"))
        assert await eventually(lambda: cluster.ips("c", "vf2")) == ["10.0.0.7/24"]
        assert set(await cluster.entries("c")) == {"vf2"}
        assert client.applied == {"c": 2}


async def test_what_happened_while_it_was_down(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1", "vf2")
    pod = await cluster.pod("p", "c")
    await cluster.claim("c", pod, "vf1")
    await cluster.attach("p", attached("10.0.0.5"))
    async with cluster.controller() as (client, _):
        await eventually(lambda: cluster.ips("c"))
        assert client.applied == {"c": 1}
    version = (await cluster.get("c"))["metadata"]["resourceVersion"]
    async with cluster.controller() as (client, _):
        other = await cluster.pod("q", "d")
        await cluster.claim("d", other, "vf2")
        await cluster.attach("q", attached("10.0.0.6", pci="0000:03:00.2"))
        await eventually(lambda: cluster.ips("d", "vf2"))
        assert client.applied == {"d": 1}, "what is there is not written again"
    assert (await cluster.get("c"))["metadata"]["resourceVersion"] == version
    await cluster.attach("p", attached("10.0.0.8"))
    async with cluster.controller() as (client, _):
        await eventually(lambda: cluster.ips("c"), ["10.0.0.8/24"].__eq__)
        assert client.applied == {"c": 1}


async def test_two_controllers_do_not_fight(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1", "vf2")
    async with cluster.controller() as (one, _), cluster.controller() as (other, _):
        for name, device, pci in (("p", "vf1", "0000:03:00.1"), ("q", "vf2", "0000:03:00.2")):
            pod = await cluster.pod(name, f"{name}-c")
            await cluster.claim(f"{name}-c", pod, device)
            await cluster.attach(name, attached("10.0.0.5", pci=pci))
            await eventually(lambda name=name, device=device: cluster.ips(f"{name}-c", device))
        for client in (one, other):
            assert all(count == 1 for count in client.applied.values()), client.applied


async def test_an_attachment_wakes_the_pods_that_select_it_alone(cluster: ClaimsCluster) -> None:
    await cluster.slice("vf1")
    pod = await cluster.pod("p", "c", networks="net")
    await cluster.claim("c", pod, "vf1")
    await cluster.attach("p", attached("10.0.0.5"))
    async with cluster.controller() as (client, _):
        await eventually(
            lambda: cluster.entries("c"), lambda found: "vf1" in found and "ips" not in found["vf1"]["networkData"]
        )
        await cluster.attachment("other")
        await cluster.attachment("net", "10.0.0.0/16")
        await eventually(lambda: cluster.ips("c"), ["10.0.0.5/16"].__eq__)
        await cluster.admin.delete(NETWORK_ATTACHMENTS, "net", namespace=NAMESPACE)
        await eventually(
            lambda: cluster.entries("c"), lambda found: "vf1" in found and "ips" not in found["vf1"]["networkData"]
        )
        assert client.applied == {"c": 3}


async def test_an_unmatched_device_gives_one_event_on_the_pod_and_one_on_the_claim(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1", "vf2")
    pod = await cluster.pod("p", "c")
    await cluster.claim("c", pod, "vf1")
    async with cluster.controller(events=True, resync=0.2):
        await cluster.attach("p", attached("10.0.0.5", pci="0000:03:00.7", network="default/elsewhere"))
        both = await eventually(lambda: cluster.events("NetworkDataUnmatched"), lambda found: len(found) == 2)
        messages = {one["involvedObject"]["kind"]: one["message"] for one in both}
        assert messages["Pod"] == f"claim c, {messages['ResourceClaim']}"
        assert messages["ResourceClaim"].startswith("device vf.example.com/n1/vf1: ")
        other = await cluster.pod("q", "d")
        await cluster.claim("d", other, "vf2")
        await cluster.attach("q", attached("10.0.0.6", pci="0000:03:00.2"))
        await eventually(lambda: cluster.ips("d", "vf2"))
        assert [one["count"] for one in await cluster.events("NetworkDataUnmatched")] == [1, 1]
