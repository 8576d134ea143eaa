"""What a kit promises: one watch for each scope, keys that a change wakes, and our own writes that wake nothing."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import REGISTRY

from app.kube.client import KubeClient
from app.kube.controller import Done, Result
from app.kube.kit import Kit, Watched, Watches, all_of, itself
from app.kube.reflector import Scope
from app.kube.resources import CONFIG_MAPS, NODES
from app.kube.store import Key, Store
from tests.support.fake_apiserver import ApiServer, config_map, status
from tests.support.kits import offline_kit, waking
from tests.support.running import at_work, running
from tests.support.waiting import eventually


@dataclass(frozen=True, slots=True)
class Stored:
    key: Key
    uid: str
    version: int
    value: str


def stored(obj: dict[str, Any]) -> Stored:
    metadata = obj["metadata"]
    version = int(metadata["resourceVersion"])
    return Stored(
        (metadata["namespace"], metadata["name"]), metadata.get("uid", metadata["name"]), version, obj["data"]["value"]
    )


def name_of(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def number_of(obj: dict[str, Any]) -> int:
    return int(obj["data"]["value"])


class Reconciled:
    """Which keys were reconciled."""

    def __init__(self) -> None:
        self.keys: list[Key] = []

    async def step(self, key: Key) -> Result:
        self.keys.append(key)
        return Done()


def poisoned(called: str) -> float:
    return REGISTRY.get_sample_value("watch_poison_objects_total", {"kind": called}) or 0.0


@pytest.fixture
def kit() -> Kit:
    """It does not run."""
    return offline_kit()


def texts_and_numbers(client: KubeClient, watches: Watches) -> tuple[Kit, Kit, Store[Stored], Store[int]]:
    texts, numbers = Kit(client, watches=watches), Kit(client, watches=watches)
    return texts, numbers, texts.cache(CONFIG_MAPS, stored, called="Text"), numbers.cache(CONFIG_MAPS, number_of)


async def test_caches_of_one_scope_share_a_watch_and_nothing_else(server: ApiServer, client: KubeClient) -> None:
    """An object that one of them cannot keep is missing in that one alone, in a list and in a watch."""
    server.put(config_map("a", value="1"))
    server.put(config_map("b", value="two"))
    watches = Watches(client)
    text_kit, number_kit, texts, numbers = texts_and_numbers(client, watches)
    before = poisoned("Text"), poisoned("ConfigMap")
    async with at_work(text_kit, ready=False), at_work(number_kit):
        assert (len(texts), len(numbers)) == (2, 1)
        await eventually(lambda: len(server.watches) == 1)
        server.put(config_map("c", value="three"))
        server.put(config_map("d", value="4"))
        await eventually(lambda: (len(texts), len(numbers)) == (4, 2))
        lists = [request for request in server.requests if "watch" not in request]
        assert (len(lists), len(server.watches)) == (1, 1)
        assert (poisoned("Text") - before[0], poisoned("ConfigMap") - before[1]) == (0, 2)
        assert text_kit.waiting() == number_kit.waiting() == []
    scope = Scope(CONFIG_MAPS)
    assert watches.declared == [Watched(scope, "Text"), Watched(scope, "ConfigMap")]


async def test_kits_that_keep_the_same_of_the_same_objects_have_one_cache(
    server: ApiServer, client: KubeClient
) -> None:
    """Each wakes its own keys by it; one that is asked for when the watch has begun is another."""
    server.put(config_map("a", value="1"))
    watches, kits, reconciled = Watches(client), list[Kit](), list[Reconciled]()
    caches = list[Store[int]]()
    for name in ("one", "other"):
        kit, work = Kit(client, watches=watches), Reconciled()
        caches.append(kit.cache(CONFIG_MAPS, number_of))
        kit.reconcile(name, work.step, keys=tuple, wakes={caches[-1]: itself})
        kits.append(kit)
        reconciled.append(work)
    assert caches[0] is caches[1]
    assert kits[0].cache(CONFIG_MAPS, number_of, indices={"odd": lambda number: (number % 2,)}) is not caches[0]
    assert kits[0].cache(CONFIG_MAPS, number_of, called="Number") is not caches[0]
    assert all(kit.waiting() for kit in kits)
    async with at_work(kits[0], ready=False), at_work(kits[1]):
        await eventually(lambda: [work.keys for work in reconciled] == [[("default", "a")]] * 2)
        assert len(server.watches) == 1
        assert kits[1].cache(CONFIG_MAPS, number_of) is not caches[0]


async def test_a_doubt_is_one_of_all_caches_of_the_watch(server: ApiServer, client: KubeClient) -> None:
    server.put(config_map("a", value="1"))
    text_kit, number_kit, texts, numbers = texts_and_numbers(client, Watches(client))
    renewed: list[str] = []
    texts.on_renewed(lambda: renewed.append("texts"))
    numbers.on_renewed(lambda: renewed.append("numbers"))
    async with at_work(text_kit, ready=False), at_work(number_kit):
        await eventually(lambda: bool(server.watches))
        server.drop_watches()
        await eventually(lambda: sorted(renewed) == ["numbers", "texts"])


async def test_another_scope_has_a_watch_of_its_own(server: ApiServer, client: KubeClient) -> None:
    """So has a cache that is asked for when the watch runs already: it needs a list."""
    server.put(config_map("a", value="1"))
    watches = Watches(client)
    first = Kit(client, watches=watches)
    first.cache(CONFIG_MAPS, number_of)
    first.cache(CONFIG_MAPS, number_of, namespace="default")
    async with at_work(first):
        await eventually(lambda: len(server.watches) == 2)
        late = Kit(client, watches=watches)
        numbers = late.cache(CONFIG_MAPS, number_of)
        async with at_work(late):
            await eventually(lambda: len(server.watches) == 3)
            assert len(numbers) == 1


async def test_a_change_wakes_what_is_said_of_its_cache(kit: Kit) -> None:
    """Of each reconciler of the kit."""
    numbers, others = kit.cache(CONFIG_MAPS, number_of), kit.cache(NODES, name_of)
    woken: list[tuple[str, object]] = []
    for name, wakes in (("each", {numbers: itself}), ("all", {others: all_of(numbers.keys), numbers: all_of(tuple)})):
        waking(kit, wakes, lambda key, name=name: woken.append((name, key)), name=name)
    assert [controller.name for controller in kit.controllers] == ["each", "all"]
    numbers.upsert(config_map("a", value="1"))
    numbers.upsert(config_map("b", value="1"))
    assert woken == [("each", ("default", "a")), ("each", ("default", "b"))]
    woken.clear()
    others.upsert({"metadata": {"name": "node"}})
    assert woken == [("all", ("default", "a")), ("all", ("default", "b"))]


async def test_our_own_writes_wake_nothing_and_those_that_never_show_do(
    server: ApiServer, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.kube.kit._LAG", 0.2)
    monkeypatch.setattr("app.kube.kit._LOOK", 0.01)
    kit, reconciled = Kit(client, resync=None), Reconciled()
    texts = kit.cache(CONFIG_MAPS, stored)
    own = kit.own(texts)
    kit.reconcile("texts", reconciled.step, keys=tuple, wakes={texts: itself})
    ended: list[str] = []
    kit.at_end(lambda: ended.append("ended"))
    async with at_work(kit):
        await eventually(lambda: bool(server.watches))
        with own.under_way(("default", "a")):
            server.put(config_map("a", value="1"))
            await eventually(lambda: len(texts) == 1)
        assert reconciled.keys == []
        server.put(config_map("a", value="2"))
        await eventually(lambda: reconciled.keys == [("default", "a")])
        (text,) = texts.values()
        own.wrote(text.key, Stored(text.key, text.uid, text.version + 100, "lost"))
        assert own.get(text.key) != text
        await eventually(lambda: reconciled.keys == [("default", "a")] * 2)
        assert own.get(text.key) == text
    assert ended == ["ended"]


async def test_a_reconciler_may_wait_for_some_of_the_caches_alone() -> None:
    kit, some, every = offline_kit(), Reconciled(), Reconciled()
    numbers, nodes = kit.cache(CONFIG_MAPS, number_of), kit.cache(NODES, name_of)
    numbers.upsert(config_map("a", value="1"))
    numbers.mark_synced()
    one = kit.reconcile("some", some.step, keys=numbers.keys, wakes={}, stores=(numbers,))
    other = kit.reconcile("every", every.step, keys=numbers.keys, wakes={})
    async with running(one.run()), running(other.run()):
        await eventually(lambda: some.keys == [("default", "a")])
        assert every.keys == []
        nodes.mark_synced()
        await eventually(lambda: every.keys == [("default", "a")])


async def test_what_runs_beside_is_in_what_the_kit_is_within(client: KubeClient) -> None:
    """All has ended before the manager is left, and that before the end of the kit."""
    kit, events = Kit(client), list[str]()

    @contextlib.asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        events.append("entered")
        try:
            yield
        finally:
            events.append("left")

    async def work() -> None:
        events.append("runs")
        try:
            await asyncio.sleep(math.inf)
        finally:
            events.append("ends")

    kit.at_end(lambda: events.append("forgotten"))
    kit.beside("work", work)
    kit.within(manager())
    async with at_work(kit):
        await eventually(lambda: len(events) == 2)
    assert events == ["entered", "runs", "ends", "left", "forgotten"]


def test_readiness_waits_for_what_the_kit_is_told() -> None:
    kit, problems = offline_kit(), ["kubelet does not answer"]
    kit.waits_for(lambda: problems)
    kit.cache(NODES, name_of)
    assert [line.split(":")[0] for line in kit.waiting()] == ["nodes", "kubelet does not answer"]
    problems.clear()
    assert [line.split(":")[0] for line in kit.waiting()] == ["nodes"]


async def test_a_cache_that_was_filled_once_is_synced_even_while_it_is_in_doubt(
    server: ApiServer, client: KubeClient
) -> None:
    async def refused(_server: ApiServer, _request: web.Request) -> web.StreamResponse:
        return web.json_response(status(500, "InternalError", "no"), status=500)

    kit = Kit(client)
    kit.cache(CONFIG_MAPS, number_of)
    assert kit.unsynced() == kit.waiting() != []
    async with at_work(kit):
        assert kit.unsynced() == []
        await eventually(lambda: bool(server.watches))
        server.fault = refused
        server.drop_watches()
        await eventually(kit.waiting)
        assert kit.unsynced() == []


async def test_what_has_subscribed_to_a_cache_has_seen_a_change_when_it_wakes(kit: Kit) -> None:
    """So keys may be those of what is derived from a cache."""
    numbers, derived = kit.cache(CONFIG_MAPS, number_of), list[Key]()
    numbers.subscribe(lambda _event, key, _old, _new: derived.append(key))
    woken: list[Key] = []
    waking(kit, {numbers: all_of(lambda: derived)}, woken.append)
    numbers.upsert(config_map("a", value="1"))
    assert woken == [("default", "a")]


async def test_a_store_of_no_cache_wakes_too(kit: Kit) -> None:
    numbers = Store[int](number_of)
    woken: list[Key] = []
    controller = kit.reconcile("numbers", Reconciled().step, keys=tuple, wakes={})
    controller.enqueue = woken.append  # type: ignore[method-assign]
    kit.wake(controller, {numbers: itself})
    numbers.upsert(config_map("a", value="1"))
    assert woken == [("default", "a")]


async def test_what_is_declared_while_it_runs_begins_at_once(server: ApiServer, client: KubeClient) -> None:
    """And what is declared when it ends does not begin."""
    server.put(config_map("a", value="1"))
    kit, reconciled, begun = Kit(client, resync=None), Reconciled(), list[str]()
    numbers = kit.cache(CONFIG_MAPS, number_of)

    async def later() -> None:
        texts = kit.cache(CONFIG_MAPS, stored, namespace="default", called="Text")
        assert kit.waiting() == ["configmaps: not listed yet"] * 2
        kit.reconcile("texts", reconciled.step, keys=numbers.keys, wakes={texts: itself})
        kit.beside("last", last)

    async def last() -> None:
        begun.append("last")
        try:
            await asyncio.Event().wait()
        finally:
            kit.beside("never", never)

    async def never() -> None:
        begun.append("never")

    kit.beside("later", later)
    async with at_work(kit):
        await eventually(lambda: reconciled.keys == [("default", "a")])
        server.put(config_map("b", value="2"))
        await eventually(lambda: reconciled.keys[1:] == [("default", "b")])
        assert len(numbers) == 2
    assert begun == ["last"]
