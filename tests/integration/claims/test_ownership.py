"""Whose network data are: other field managers, drivers that publish for themselves, drivers that erase."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.support.claims import DRANET, NODE, OURS, VF, ClaimsCluster, attached, entry, told
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
THEIRS = {"interfaceName": "eth9", "ips": ["192.168.0.9/24"]}
MINE = {"interfaceName": "net1", "hardwareAddress": "02:00:00:00:00:01", "ips": ["10.0.0.5/24"]}


async def prepared(cluster: ClaimsCluster, *, driver: str = VF) -> None:
    """A Pod with a device that is attached, and a second one as a mark of what has been looked at."""
    await cluster.attachment()
    await cluster.slice("vf1", "vf2", driver=driver)
    pod = await cluster.pod("p", "c")
    await cluster.claim("c", pod, "vf1", driver=driver)
    await cluster.attach("p", attached("10.0.0.5"))


async def looked_at(cluster: ClaimsCluster, name: str = "z") -> None:
    """Returns when the controller has looked at everything before."""
    await cluster.attachment(f"net-{name}", "10.9.0.0/24", "example.com/other")
    await cluster.slice("vf3", driver=f"{name}.example.com")
    pod = await cluster.pod(name, f"{name}-c", networks=f"net-{name}")
    await cluster.claim(f"{name}-c", pod, "vf3", driver=f"{name}.example.com")
    status = attached("10.9.0.5", network=f"default/net-{name}", pci="0000:03:00.3")
    await cluster.attach(name, status)
    await eventually(lambda: cluster.ips(f"{name}-c", "vf3"))


async def test_another_manager_is_deferred_to(cluster: ClaimsCluster) -> None:
    await prepared(cluster)
    await cluster.apply("c", [entry(networkData=THEIRS)])
    async with cluster.controller() as (client, _):
        await looked_at(cluster)
        assert await cluster.entries("c") == {"vf1": entry(networkData=THEIRS)}
        assert OURS not in await cluster.managers("c")
        assert client.applied == {"z-c": 1}


async def test_one_that_comes_later_is_deferred_to_as_well(cluster: ClaimsCluster) -> None:
    """It takes the fields by force, as dranet does: also where its values are ours, it owns them."""
    await prepared(cluster)
    async with cluster.controller() as (client, _):
        await eventually(lambda: cluster.ips("c"))
        await cluster.apply("c", [entry(networkData=MINE)], force=True)
        await eventually(lambda: cluster.entries("c"), {"vf1": entry(networkData=MINE)}.__eq__)
        assert OURS not in await cluster.managers("c")
        await cluster.attach("p", attached("10.0.0.6"))
        await looked_at(cluster)
        assert await cluster.ips("c") == ["10.0.0.5/24"]
        assert client.applied == {"c": 2, "z-c": 1}
        # As soon as it lets go, they are ours again.
        await cluster.apply("c", [])
        await eventually(lambda: cluster.ips("c"), ["10.0.0.6/24"].__eq__)


async def test_other_fields_of_a_driver_stay(cluster: ClaimsCluster) -> None:
    await prepared(cluster)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "r",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await cluster.apply("c", [entry(data={"a": 1}, conditions=[ready])])
    async with cluster.controller():
        await eventually(lambda: cluster.ips("c"))
        found = (await cluster.entries("c"))["vf1"]
        assert found["data"] == {"a": 1}
        assert found["networkData"] == MINE
        assert ready in found["conditions"]
        assert told(found)["status"] == "True"


async def test_force_takes_them_over(cluster: ClaimsCluster) -> None:
    await prepared(cluster)
    await cluster.apply("c", [entry(networkData=THEIRS, data={"a": 1})])
    async with cluster.controller(conflict="force") as (client, _):
        await eventually(lambda: cluster.ips("c"), ["10.0.0.5/24"].__eq__)
        found = (await cluster.entries("c"))["vf1"]
        assert (found["networkData"], found["data"]) == (MINE, {"a": 1})
        await looked_at(cluster)
        assert client.applied == {"c": 1, "z-c": 1}


async def test_drivers_that_are_not_on_the_list_are_left_alone(cluster: ClaimsCluster) -> None:
    await prepared(cluster)
    async with cluster.controller(drivers=frozenset({"z.example.com"})) as (client, _):
        await looked_at(cluster)
        assert await cluster.entries("c") == {}
        assert client.applied == {"z-c": 1}


async def test_what_was_published_for_a_driver_stays_when_it_leaves_the_list(cluster: ClaimsCluster) -> None:
    """The role has lost the right for the driver by the same change: a write would be refused again and again."""
    await prepared(cluster)
    async with cluster.controller():
        await eventually(lambda: cluster.ips("c"))
    before = await cluster.get("c")
    async with cluster.controller(drivers=frozenset({"z.example.com"})) as (client, made):
        await cluster.attach("p", attached("10.0.0.6"))
        await looked_at(cluster)
        assert client.applied == {"z-c": 1}
        assert made.waiting() == []
    assert await cluster.get("c") == before


async def test_a_driver_that_publishes_for_itself_is_left_alone(cluster: ClaimsCluster) -> None:
    await prepared(cluster, driver=DRANET)
    async with cluster.controller() as (client, _):
        await looked_at(cluster)
        assert client.applied == {"z-c": 1}


async def test_what_such_a_driver_has_not_published_is_repaired(cluster: ClaimsCluster) -> None:
    await prepared(cluster, driver=DRANET)
    async with cluster.controller(repair_after=0.5) as (client, _):
        await eventually(lambda: cluster.ips("c"), ["10.0.0.5/24"].__eq__)
        await cluster.attach("p", attached("10.0.0.6"))
        await eventually(lambda: cluster.ips("c"), ["10.0.0.6/24"].__eq__)
        assert client.applied == {"c": 2}
        # It comes after all, by force.
        await cluster.apply("c", [entry(driver=DRANET, networkData=THEIRS)], manager=DRANET, force=True)
        await eventually(lambda: cluster.entries("c"), {"vf1": entry(driver=DRANET, networkData=THEIRS)}.__eq__)


async def test_a_driver_that_publishes_in_time_is_not_repaired(cluster: ClaimsCluster) -> None:
    await prepared(cluster, driver=DRANET)
    await cluster.apply("c", [entry(driver=DRANET, networkData=THEIRS)], manager=DRANET, force=True)
    async with cluster.controller(repair_after=0.1) as (client, _):
        await looked_at(cluster)
        assert await cluster.entries("c") == {"vf1": entry(driver=DRANET, networkData=THEIRS)}
        assert client.applied == {"z-c": 1}


async def test_an_erasing_driver(cluster: ClaimsCluster) -> None:
    """After a conflict dra-driver-sriov puts the list that it had read before."""
    await prepared(cluster)
    async with cluster.controller() as (client, _):
        await eventually(lambda: cluster.ips("c"))
        erased = await cluster.get("c")
        erased["status"]["devices"] = [entry(data={"a": 1})]
        await cluster.put(erased)
        await eventually(lambda: cluster.ips("c"), ["10.0.0.5/24"].__eq__)
        assert (await cluster.entries("c"))["vf1"]["data"] == {"a": 1}
        assert client.applied == {"c": 2}


async def test_a_driver_that_puts_back_older_addresses(cluster: ClaimsCluster) -> None:
    """They are ours, though managedFields name the driver: it owns our condition too."""
    await prepared(cluster)
    async with cluster.controller() as (client, _):
        await eventually(lambda: cluster.ips("c"))
        older = deepcopy((await cluster.get("c"))["status"]["devices"])
        await cluster.attach("p", attached("10.0.0.6"))
        await eventually(lambda: cluster.ips("c"), ["10.0.0.6/24"].__eq__)
        now = await cluster.get("c")
        now["status"]["devices"] = older
        await cluster.put(now)
        await eventually(lambda: cluster.ips("c"), ["10.0.0.6/24"].__eq__)
        assert client.applied == {"c": 3}
        assert told((await cluster.entries("c"))["vf1"])["message"].startswith("10.0.0.6/24 on net1")


async def test_a_driver_that_erases_again_and_again_meets_growing_pauses(cluster: ClaimsCluster) -> None:
    await prepared(cluster)
    async with cluster.controller(events=True) as (client, _):
        for number in range(6):
            await eventually(lambda: cluster.ips("c"))
            erased = await cluster.get("c")
            erased["status"]["devices"] = [entry(data={"n": number})]
            await cluster.put(erased)
        found = await eventually(lambda: cluster.events("NetworkDataErased"), lambda found: len(found) == 2)
        assert {one["involvedObject"]["kind"] for one in found} == {"Pod", "ResourceClaim"}
        assert [one["count"] for one in found] == [1, 1]
        assert client.applied["c"] >= 6


async def test_of_two_devices_the_one_that_is_anothers_is_left_out(cluster: ClaimsCluster) -> None:
    await cluster.attachment()
    await cluster.slice("vf1", "vf2")
    pod = await cluster.pod("p", "c", networks="net,net")
    await cluster.claim("c", pod, "vf1", "vf2")
    await cluster.apply("c", [entry("vf2", networkData=THEIRS)])
    await cluster.attach("p", attached("10.0.0.5"), attached("10.0.0.6", interface="net2", pci="0000:03:00.2"))
    async with cluster.controller():
        await eventually(lambda: cluster.ips("c"))
        found = await cluster.entries("c")
        assert found["vf2"] == entry("vf2", networkData=THEIRS)
        assert found["vf1"]["networkData"] == MINE
        assert found["vf1"]["pool"] == NODE
