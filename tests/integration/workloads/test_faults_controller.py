"""Restarts, lost connections, two controllers at once: afterwards exactly the desired companions exist."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter

import pytest

from app.errors import ApiError
from app.kube.resources import NAMESPACES, PODS
from app.workloads.model import TENANT_RULES, WORKLOADS
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import T1, T2, CountingClient, Infra, companions_kit, rule

FOREIGN = {"metadata": {"name": "foreign", "namespace": T1}, "spec": rule("r")["spec"]["template"]["spec"]}


class State:
    """What was asked for, changed at random, and what should exist because of it."""

    def __init__(self, infra: Infra, seed: int) -> None:
        self.infra = infra
        self.random = random.Random(seed)
        self.workloads: dict[str, tuple[str, str]] = {}
        self.rules: dict[str, tuple[str, str]] = {}
        self.admin: str = ""
        self.next = 0

    async def change(self) -> None:
        choice = self.random.random()
        if choice < 0.45 or not self.workloads:
            self.next += 1
            id_, namespace = f"u{self.next}", self.random.choice((T1, T2))
            self.workloads[id_] = (namespace, "0")
            await self.infra.workload(id_, namespace=namespace, labels={"v": "0"})
        elif choice < 0.6:
            id_ = self.random.choice(sorted(self.workloads))
            namespace, _ = self.workloads.pop(id_)
            await self.infra.remove(WORKLOADS, f"workload-{id_}", namespace)
        elif choice < 0.75:
            id_ = self.random.choice(sorted(self.workloads))
            namespace, label = self.workloads[id_]
            self.workloads[id_] = (namespace, f"{label}x"[:20])
            await self.infra.workload(id_, namespace=namespace, labels={"v": self.workloads[id_][1]})
        elif choice < 0.95 or len(self.rules) < 2:
            name, image = f"r{self.random.randrange(3)}", f"nginx:{self.random.randrange(3)}"
            namespace = self.random.choice((T1, T2))
            self.rules[f"{namespace}/{name}"] = (namespace, image)
            await self.infra.rule(name, namespace=namespace, image=image, inject={"v": "state.extra.labels.v"})
        else:
            key = self.random.choice(sorted(self.rules))
            namespace, _ = self.rules.pop(key)
            await self.infra.remove(TENANT_RULES, key.partition("/")[2], namespace)

    def desired(self) -> dict[tuple[str, str], tuple[str, str]]:
        """(image, injected value) by namespace and name."""
        wanted = {}
        for id_, (namespace, label) in self.workloads.items():
            for key, (of, image) in self.rules.items():
                if of == namespace:
                    wanted[namespace, f"{key.partition('/')[2]}-{id_}"] = (image, label)
        return wanted

    def actual(self) -> dict[tuple[str, str], tuple[str, str]]:
        found = {}
        for pod in self.infra.stored(PODS):
            metadata = pod["metadata"]
            if metadata["name"] != "foreign":
                value = metadata["annotations"]["v"] if not metadata.get("deletionTimestamp") else "ending"
                found[metadata["namespace"], metadata["name"]] = (pod["spec"]["containers"][0]["image"], value)
        return found

    async def converged(self) -> None:
        await eventually(lambda: self.actual() == self.desired())


async def crash(task: asyncio.Task[None], client: CountingClient) -> None:
    """The process dies: its connections first, so that what was under way stays half done."""
    await client.close()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("seed", [1, 2])
async def test_killed_and_restarted_at_random_points(infra: Infra, seed: int) -> None:
    state = State(infra, seed)
    foreign = (await infra.admin.create(PODS, FOREIGN, namespace=T1))["metadata"]["uid"]
    for _ in range(12):
        client = await infra.client()
        controller = companions_kit(client, workers=4)
        task = asyncio.create_task(controller.run())
        for _ in range(4):
            await state.change()
        await asyncio.sleep(state.random.random() * 0.15)
        await crash(task, client)
    async with infra.controller():
        await state.converged()
        await asyncio.sleep(0.3)
    assert state.actual() == state.desired()
    assert state.desired()
    assert infra.uid("foreign") == foreign


async def test_two_controllers_at_once_agree(infra: Infra) -> None:
    state = State(infra, 3)
    async with infra.controller(resync=0.5) as first, infra.controller(resync=0.5) as second:
        for _ in range(50):
            await state.change()
        assert state.desired()
        # They settle: neither undoes what the other does.
        async with asyncio.timeout(PATIENCE):
            while True:
                await state.converged()
                before = first.counts["delete pods"] + second.counts["delete pods"]
                await asyncio.sleep(1.8)
                if first.counts["delete pods"] + second.counts["delete pods"] == before:
                    break
        assert state.actual() == state.desired()


async def test_connections_that_are_cut(infra: Infra) -> None:
    state = State(infra, 4)
    async with infra.controller() as client:
        for round_ in range(30):
            await state.change()
            if round_ % 10 == 5:
                await cut(infra)
        await state.converged()
        assert client.counts["create pods"]


async def test_answers_that_get_lost_cause_no_second_companion(infra: Infra) -> None:
    """The Pod was created, and nobody told us: it is found, taken for what it is, and not asked for again and again."""
    client = await infra.client()
    lost: Counter[str] = Counter()
    create = client.create

    async def lose_first(resource, body, **more):
        pod = await create(resource, body, **more)
        lost[body["metadata"]["name"]] += 1
        if lost[body["metadata"]["name"]] == 1:
            raise ApiError("cut", status=0)
        return pod

    client.create = lose_first  # type: ignore[method-assign]  # the real one, its answers lost
    for n in range(5):
        await infra.workload(f"u{n}")
    await infra.rule("r")
    async with infra.controller(client, resync=0.1):
        await eventually(lambda: infra.status(TENANT_RULES, "r").get("created") == 5)
        await asyncio.sleep(0.3)
    assert len(infra.pods()) == 5
    assert set(lost.values()) == {1}
    assert client.counts["create pods"] <= 10
    assert client.counts["delete pods"] == 0
    await client.close()


async def test_stale_cache_harms_no_pod_that_has_taken_the_name(infra: Infra) -> None:
    """The watch goes deaf after the list: a deletion means the Pod that was listed, and is sent once."""
    client = await infra.client()
    for id_ in ("u1", "u2"):
        await infra.workload(id_)
    await infra.rule("r")
    async with infra.controller():
        await eventually(lambda: len(infra.pods()) == 2)
    await infra.bind("r-u2")
    make_deaf(client)
    async with infra.controller(client, resync=0.05):
        await infra.admin.delete(PODS, "r-u1", namespace=T1)
        foreign = {**FOREIGN, "metadata": {"name": "r-u1", "namespace": T1}}
        uid = (await infra.admin.create(PODS, foreign, namespace=T1))["metadata"]["uid"]
        for id_ in ("u1", "u2"):
            await infra.remove(WORKLOADS, f"workload-{id_}")
        await eventually(lambda: infra.pods()["r-u2"]["metadata"].get("deletionTimestamp"))
        await asyncio.sleep(0.5)
        assert infra.uid("r-u1") == uid
        assert client.counts["delete pods"] == 2
    await client.close()


async def test_cache_that_lags_causes_neither_second_writes_nor_questions(infra: Infra) -> None:
    """The watch of companions is deaf; every workload is looked at again and again."""
    client = await infra.client()
    make_deaf(client)
    await infra.workload("u1")
    await infra.workload("u2")
    await infra.rule("r", inject={"v": "state.extra.labels.v"})
    async with infra.controller(client, resync=0.05):
        await eventually(lambda: len(infra.pods()) == 2)
        await infra.workload("u1", labels={"v": "1"})
        await infra.remove(WORKLOADS, "workload-u2")
        await eventually(lambda: len(infra.pods()) == 1)
        await asyncio.sleep(0.5)
        assert client.counts["create pods"] == 2
        assert client.counts["patch pods"] == 1
        assert client.counts["delete pods"] == 1
        assert client.counts["get pods"] == 0
        assert infra.pods()["r-u1"]["metadata"]["annotations"]["v"] == "1"
    await client.close()


async def test_pod_that_is_deleted_before_its_creation_is_answered_comes_back(infra: Infra) -> None:
    """The watch shows it come and go while the answer is on its way."""
    client = await infra.client()
    create = client.create
    uids: list[str] = []

    async def answer_late(resource, body, **more):
        pod = await create(resource, body, **more)
        uids.append(pod["metadata"]["uid"])
        if len(uids) == 1:
            await infra.admin.delete(resource, body["metadata"]["name"], namespace=T1)
            await asyncio.sleep(0.3)
        return pod

    client.create = answer_late  # type: ignore[method-assign]  # the real one, its answer late
    await infra.rule("r")
    async with infra.controller(client):
        await infra.workload("u1")
        await eventually(lambda: uids and infra.pods() and infra.uid("r-u1") != uids[0])
    await client.close()


async def test_api_server_restart(infra: Infra) -> None:
    await infra.workload("u1")
    await infra.rule("r")
    async with infra.controller():
        await eventually(infra.pods)
        await infra.cluster.stop()
        await asyncio.sleep(0.2)
        infra.cluster.storage.reopen()
        await infra.cluster.start()
        await infra.workload("u2")
        await eventually(lambda: set(infra.pods()) == {"r-u1", "r-u2"})


def make_deaf(client: CountingClient) -> None:
    """The client's watch of Pods stays open and silent."""
    watch = client.watch

    async def silence():
        yield b""
        await asyncio.Event().wait()

    def deaf(resource, **more):
        return silence() if resource is PODS else watch(resource, **more)

    client.watch = deaf  # type: ignore[method-assign]  # the real one, but for Pods


async def cut(infra: Infra) -> None:
    """Cut every connection of the API server, watches and requests alike."""
    await infra.cluster.cut()
    # The test's own connection is dead too: a read is sent again over a new one, a creation would not be.
    await infra.admin.get(NAMESPACES, T1)
