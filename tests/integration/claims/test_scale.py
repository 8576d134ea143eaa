"""Many claims: writes are counted, and none is sent twice. What a watch loses causes none either."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from app.errors import ApiError
from app.kube.resources import RESOURCE_CLAIMS
from tests.support.claims import ClaimsCluster, attached
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio
CLAIMS = 120


async def started(cluster: ClaimsCluster, count: int = CLAIMS) -> None:
    """Pods with a device each, of ten nodes."""
    for node in range(10):
        await cluster.slice(*(f"vf{number}" for number in range(8)), node=f"n{node}", driver="a.example.com")

    async def one(number: int) -> None:
        node, device = f"n{number % 10}", f"vf{number // 10 % 8}"
        pod = await cluster.pod(f"p{number}", f"c{number}", node=node)
        await cluster.claim(f"c{number}", pod, device, driver="a.example.com", node=node)
        await sandbox(cluster, number, "10.0.0")

    for begin in range(0, count, 20):
        await asyncio.gather(*(one(number) for number in range(begin, min(begin + 20, count))))


async def sandbox(cluster: ClaimsCluster, number: int, net: str) -> None:
    await cluster.attach(f"p{number}", attached(f"{net}.{number + 1}", pci=f"0000:03:00.{number // 10 % 8}"))


async def all_published(cluster: ClaimsCluster, net: str, count: int = CLAIMS) -> bool:
    page = await cluster.admin.list_page(RESOURCE_CLAIMS, namespace="default")
    found = {
        one["metadata"]["name"]: entry["networkData"]["ips"]
        for one in page.items
        for entry in one["status"].get("devices") or ()
    }
    return found == {f"c{number}": [f"{net}.{number + 1}/16"] for number in range(count)}


async def test_one_write_for_each_claim_and_start_of_a_sandbox(cluster: ClaimsCluster) -> None:
    await cluster.attachment(subnet="10.0.0.0/16")
    await started(cluster)
    async with cluster.controller() as (client, _):
        await eventually(lambda: all_published(cluster, "10.0.0"))
        assert client.applied == Counter({f"c{number}": 1 for number in range(CLAIMS)})
        for number in range(CLAIMS):
            await sandbox(cluster, number, "10.0.1")
        await eventually(lambda: all_published(cluster, "10.0.1"))
        assert client.applied == Counter({f"c{number}": 2 for number in range(CLAIMS)})
        assert client.others == 0


async def test_a_resync_writes_nothing(cluster: ClaimsCluster) -> None:
    await cluster.attachment(subnet="10.0.0.0/16")
    await started(cluster, 20)
    async with cluster.controller(resync=0.05) as (client, _):
        await eventually(lambda: all_published(cluster, "10.0.0", 20))
        pod = await cluster.pod("q", "d", node="n0")
        await cluster.claim("d", pod, "vf7", driver="a.example.com", node="n0")
        await cluster.attach("q", attached("10.0.9.9", pci="0000:03:00.7"))
        await eventually(lambda: cluster.ips("d", "vf7"))
        assert max(client.applied.values()) == 1


async def test_writes_that_fail_are_tried_again(cluster: ClaimsCluster) -> None:
    """Every first try meets an outage, and every second one a conflict."""
    await cluster.attachment(subnet="10.0.0.0/16")
    tries: Counter[str] = Counter()

    async def fail(name: str) -> None:
        tries[name] += 1
        if tries[name] == 1:
            raise ApiError("no answer", status=0)
        if tries[name] == 2:
            raise ApiError("the object has been modified", status=409, reason="Conflict")

    async with await cluster.client() as client:
        client.before = fail
        async with cluster.controller(client):
            await started(cluster, 20)
            await eventually(lambda: all_published(cluster, "10.0.0", 20))
            assert client.applied == Counter({f"c{number}": 1 for number in range(20)})


async def test_watches_that_end_lose_nothing(cluster: ClaimsCluster) -> None:
    """The controller is cut off from the API server again and again, as by a proxy that is restarted."""
    await cluster.attachment(subnet="10.0.0.0/16")
    async with await cluster.client() as client, cluster.controller(client, resync=1.0):
        starting = asyncio.ensure_future(started(cluster, 40))
        while not starting.done():
            client.cut()
            await asyncio.wait([starting], timeout=0.05)
        await starting
        await eventually(lambda: all_published(cluster, "10.0.0", 40))
        assert max(client.applied.values()) == 1, client.applied


async def test_a_controller_that_ends_in_the_middle(cluster: ClaimsCluster) -> None:
    await cluster.attachment(subnet="10.0.0.0/16")
    await started(cluster, 40)
    enough = asyncio.Event()
    async with await cluster.client() as client:

        async def count(_name: str) -> None:
            if client.applied.total() >= 10:
                enough.set()

        client.before = count
        async with cluster.controller(client, workers=2):
            await enough.wait()
        first = client.applied
    async with cluster.controller() as (again, _):
        await eventually(lambda: all_published(cluster, "10.0.0", 40))
        assert 10 <= first.total() + len(client.unanswered) < 40
        written, cut = first + again.applied, client.unanswered
        assert {name: count for name, count in written.items() if name not in cut} == {
            name: 1 for name in (f"c{number}" for number in range(40)) if name not in cut
        }
        assert all(written[name] <= 1 for name in cut), "no more than once where the first try had no answer"
