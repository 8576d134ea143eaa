"""Fault rounds: Pods, sandboxes and slices come and go while drivers write and controllers fail, end and are doubled.

In the end the network data of every device is what the network status says, no field of a driver has changed, and
nothing is written any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from functools import partial
from typing import Any

import pytest

from app.claims.model import FIELD_MANAGER, PUBLISHED
from app.claims.publishing import controller
from app.claims.publishing.pauses import Growth
from app.errors import ApiError
from app.kube import reflector
from app.kube.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from app.kube.retry import Backoff
from tests.support.claims import VF, ApplyingClient, ClaimsCluster, attached, entry
from tests.support.waiting import eventually

JSON = dict[str, Any]
NODES, DEVICES, STEPS = ("n1", "n2"), 8, 60
HEALTHY = {
    "type": "Healthy",
    "status": "True",
    "reason": "Up",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "Backoff", partial(Backoff, base=0.05, cap=0.2))
    monkeypatch.setattr(controller, "ERASED", Growth(0.1, 0.2, quick=controller.BUDGET, soon=0.05))


class FailingClient(ApplyingClient):
    """Of its applies some get no answer, some a bad one, and of some the answer is lost."""

    chance: random.Random
    failing = True

    async def apply(self, resource: Any, name: str, body: JSON, **more: Any) -> JSON:
        fault = self.chance.choice((0, 409, 429, 500, 503, "lost", *[""] * 6)) if self.failing else ""
        if isinstance(fault, int):
            raise ApiError("a fault", status=fault, delay=0.01 if fault == 429 else None)
        answer = await super().apply(resource, name, body, **more)
        if fault:
            raise ApiError("the answer is lost", status=0)
        return answer


class Rounds:
    """What is done to the cluster, and what should come of it."""

    def __init__(self, cluster: ClaimsCluster, seed: int) -> None:
        self.cluster, self.chance = cluster, random.Random(seed)
        self.pods: dict[str, tuple[str, list[str]]] = {}
        """The Pods with their nodes and devices; the claim of a Pod has its name."""
        self.addresses: dict[str, dict[str, str]] = {}
        """By Pod and device, what Multus has said last."""
        self.data: dict[str, dict[str, JSON]] = {}
        """By claim and device, what the driver has written last."""
        self.stale: dict[str, list[JSON]] = {}
        """By claim, the list that a driver has read."""
        self.generation = 1
        self.numbers = iter(range(1, 60_000))
        self.clients: list[FailingClient] = []
        self.controllers: list[contextlib.AsyncExitStack] = []

    async def begin(self) -> None:
        await self.cluster.attachment(subnet="10.0.0.0/8")
        for node in NODES:
            await self.slice(node)

    async def slice(self, node: str) -> None:
        await self.cluster.slice(*(f"vf{n}" for n in range(DEVICES)), node=node, generation=self.generation)

    async def step(self) -> None:
        usual = (self.start, self.start, self.restart_sandbox, self.restart_sandbox, self.end)
        driver = (self.driver_writes, self.driver_reads, self.driver_puts_back)
        await self.chance.choice((*usual, *driver, self.renew_slices, self.cut, self.another, self.stop))()

    async def start(self) -> None:
        node = self.chance.choice(NODES)
        used = {device for there, devices in self.pods.values() if there == node for device in devices}
        free = [f"vf{n}" for n in range(DEVICES) if f"vf{n}" not in used]
        if len(free) < 2:
            return
        name, devices = f"p{next(self.numbers)}", self.chance.sample(free, self.chance.choice((1, 2)))
        self.pods[name] = node, devices
        pod = await self.cluster.pod(name, name, node=node, networks=",".join(["net"] * len(devices)))
        await self.cluster.claim(name, pod, *devices, node=node)
        await self.attach(name)

    async def attach(self, name: str) -> None:
        """A sandbox starts: new addresses, in an order that is not that of the devices."""
        _, devices = self.pods[name]
        self.addresses[name] = {one: f"10.0.{(n := next(self.numbers)) >> 8}.{n & 255}" for one in devices}
        pairs = enumerate(self.addresses[name].items(), start=1)
        await self.cluster.attach(
            name, *(attached(ip, interface=f"net{n}", pci=f"0000:03:00.{one[2:]}") for n, (one, ip) in pairs)
        )

    def any_pod(self) -> str | None:
        return self.chance.choice(sorted(self.pods)) if self.pods else None

    async def restart_sandbox(self) -> None:
        if name := self.any_pod():
            await self.attach(name)

    async def end(self) -> None:
        if name := self.any_pod():
            for kept in (self.pods, self.addresses, self.data, self.stale):
                kept.pop(name, None)
            await self.cluster.remove(PODS, name)
            await self.cluster.remove(RESOURCE_CLAIMS, name)

    async def driver_writes(self) -> None:
        """It applies its data and a condition of its own."""
        if name := self.any_pod():
            node, devices = self.pods[name]
            self.data[name] = {one: {"written": next(self.numbers)} for one in devices}
            entries = [entry(one, node=node, data=said, conditions=[HEALTHY]) for one, said in self.data[name].items()]
            await self.cluster.apply(name, entries, force=True)

    async def driver_reads(self) -> None:
        if name := self.any_pod():
            await self.read(name)

    async def read(self, name: str) -> None:
        self.stale[name] = (await self.cluster.get(name))["status"].get("devices") or []

    async def driver_puts_back(self) -> None:
        if self.stale:
            await self.put_back(self.chance.choice(sorted(self.stale)))

    async def put_all_back(self) -> None:
        """Of every claim, the list from before its sandbox was made again."""
        for name in self.pods:
            await self.read(name)
            await self.attach(name)
        await eventually(self.wrong, lambda wrong: not wrong)
        for name in self.pods:
            await self.put_back(name)

    async def put_back(self, name: str) -> None:
        """As dra-driver-sriov after a conflict: the list that it had read, in the place of what is there."""
        devices = self.stale.pop(name)
        while True:
            claim = await self.cluster.get(name)
            claim["status"]["devices"] = devices
            try:
                await self.cluster.put(claim)
            except ApiError as error:
                if not error.conflict:
                    raise
            else:
                break
        self.data[name] = {one["device"]: one["data"] for one in devices if one.get("data")}

    async def renew_slices(self) -> None:
        """The driver is updated: for a moment a pool has two generations, or none."""
        old, self.generation = self.generation, self.generation + 1
        for node in NODES:
            first, second = (
                partial(self.slice, node),
                partial(self.cluster.remove, RESOURCE_SLICES, f"{node}-{VF}-{old}"),
            )
            for do in self.chance.sample((first, second), 2):
                await do()

    async def cut(self) -> None:
        for client in self.clients:
            client.cut()

    async def another(self) -> None:
        if len(self.controllers) < 2:
            stack = contextlib.AsyncExitStack()
            client = await self.cluster.client()
            failing = FailingClient(client.session)
            failing.applied = client.applied
            failing.chance = random.Random(self.chance.random())
            self.clients.append(failing)
            await stack.enter_async_context(client)
            await stack.enter_async_context(self.cluster.controller(failing, resync=0.3))
            self.controllers.append(stack)

    async def stop(self) -> None:
        """One of the controllers ends, whatever it is doing."""
        if self.controllers:
            number = self.chance.randrange(len(self.controllers))
            self.clients.pop(number)
            await self.controllers.pop(number).aclose()

    async def wrong(self) -> list[str]:
        """What is not as it should be, a line each."""
        found = []
        for name, wanted in self.addresses.items():
            entries = await self.cluster.entries(name)
            for device, ip in wanted.items():
                one = entries.get(device) or {}
                ips, data = (one.get("networkData") or {}).get("ips"), self.data.get(name, {}).get(device)
                conditions = {each["type"] for each in one.get("conditions") or ()}
                if ips != [f"{ip}/8"] or one.get("data") != data:
                    found.append(f"{name} {device}: want {ip} and {data}, got {one}")
                if conditions - {"Healthy"} != {PUBLISHED} or ("Healthy" in conditions) != (data is not None):
                    found.append(f"{name} {device}: conditions {conditions}")
        return found


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(4))
async def test_network_data_is_in_the_end_what_the_network_status_says(cluster: ClaimsCluster, seed: int) -> None:
    rounds = Rounds(cluster, seed)
    await rounds.begin()
    await rounds.another()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(lambda: asyncio.gather(*(one.aclose() for one in rounds.controllers)))
        for _ in range(STEPS):
            await rounds.step()
        if not rounds.controllers:
            await rounds.another()
        for client in rounds.clients:
            client.failing = False
        await eventually(rounds.wrong, lambda wrong: not wrong)
        await rounds.put_all_back()
        await eventually(rounds.wrong, lambda wrong: not wrong)
        before = [client.applied.copy() for client in rounds.clients]
        versions = await versions_of(cluster)
        await looked_at_again(rounds)
        for client, was in zip(rounds.clients, before, strict=True):
            assert (client.applied - was).keys() <= {"late"}, "it goes on writing"
        assert (await versions_of(cluster)).items() >= versions.items()
        assert not await rounds.wrong()
    managers = {one for name in rounds.addresses for one in await cluster.managers(name)}
    assert FIELD_MANAGER in managers


async def versions_of(cluster: ClaimsCluster) -> dict[str, str]:
    page = await cluster.admin.list_page(RESOURCE_CLAIMS, namespace="default")
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in page.items}


async def looked_at_again(rounds: Rounds) -> None:
    """By a controller that begins: it has looked at every Pod when it publishes for one that begins later."""
    cluster = rounds.cluster
    async with cluster.controller() as (client, _):
        pod = await cluster.pod("late", "late")
        await cluster.claim("late", pod, "vf7")
        await cluster.attach("late", attached("10.99.0.1", pci="0000:03:00.7"))
        await eventually(lambda: cluster.ips("late", "vf7"))
        assert client.applied.keys() <= {"late"}, "it writes what is there"


@pytest.mark.parametrize("poison", ["a", "b"])
async def test_a_claim_that_cannot_be_written_stops_no_other_of_its_pod(cluster: ClaimsCluster, poison: str) -> None:
    """Its write is tried again and again, whichever of them comes first."""

    async def fail(name: str) -> None:
        if name == poison:
            raise ApiError("the object has been modified", status=409, reason="Conflict")

    devices = {"a": ("vf1", "10.0.0.5/24"), "b": ("vf2", "10.0.0.6/24")}
    await cluster.attachment()
    await cluster.slice("vf1", "vf2")
    async with await cluster.client() as client:
        client.before = fail
        pod = await cluster.pod("p", *devices, networks="net,net")
        for name, (device, _) in devices.items():
            await cluster.claim(name, pod, device)
        await cluster.attach("p", attached("10.0.0.5"), attached("10.0.0.6", interface="net2", pci="0000:03:00.2"))
        async with cluster.controller(client):
            for name in sorted(devices, key=lambda name: name == poison):
                device, address = devices[name]
                assert await eventually(lambda: cluster.ips(name, device)) == [address]  # noqa: B023
                client.before = None
