"""When a cache is in doubt, and what ends the doubt: a list that is compared with it, by events and now and then."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from app.kube.client import KubeClient
from app.kube.reflector import RELIST, Reflector, Scope
from app.kube.resources import CONFIG_MAPS
from app.kube.store import Store
from tests.support.counting import Counted
from tests.support.fake_apiserver import ApiServer, config_map
from tests.support.running import running
from tests.support.waiting import eventually
from tests.unit.kube.test_reflector import Clock, fast, value


@pytest.mark.parametrize("passed", [-10, 0, 10], ids=["behind", "level", "ahead"])
async def test_a_restored_server_is_listed_whatever_its_version(
    server: ApiServer, client: KubeClient, passed: int
) -> None:
    """One that has passed the version that we hold takes the watch, and says nothing of what happened before."""
    store = Store(value)
    for number in range(20):
        server.put(config_map("lost", value=str(number)))
    held = server.version
    reflector = Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast())
    with capture_logs() as lines:
        async with running(reflector.run()):
            await _lose(server, reflector, version=held + passed - 1)
            assert reflector.problem.startswith("configmaps: ")
            assert reflector.healthy, "a webhook goes on with what it has"
            assert store.in_doubt
            (doubt,) = [line for line in lines if line["event"] == "cache in doubt"]
            assert (doubt["kind"], doubt["log_level"], doubt["version"]) == ("ConfigMap", "warning", str(held))
            await server.start()
            await eventually(lambda: store.keys() == [("default", "kept")])
            await eventually(lambda: not reflector.problem)
            assert not store.in_doubt


async def _lose(server: ApiServer, reflector: Reflector, *, version: int) -> None:
    """The server goes, and will come back with one other object and this version."""
    await eventually(lambda: bool(server.watches))
    await server.stop()
    server.objects.clear()
    server.history.clear()
    server.version = version
    server.put(config_map("kept", value="old"))
    await eventually(lambda: "was refused" in reflector.reason)


async def test_an_end_before_its_time_leads_to_a_list(server: ApiServer, client: KubeClient) -> None:
    """A server that stops ends its watches cleanly; who is there at the next try may be another."""
    server.put(config_map("a", value="1"))
    store = Store(value)
    async with running(Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast()).run()):
        await eventually(lambda: bool(server.watches))
        del server.objects["configmaps", "default", "a"]
        server.drop_watches()
        await eventually(lambda: not store.keys())


async def test_silence_is_a_doubt_only_where_the_list_differs(server: ApiServer, client: KubeClient) -> None:
    """A server sends no bookmarks of a kind that has never changed since it started: nothing is wrong there."""
    server.put(config_map("a", value="1"))
    store, renewals, problems = Store(value), list[str](), set[str]()
    reflector = Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast(), idle_timeout=0.1)
    store.on_renewed(lambda: renewals.append("renewed"))

    def lists() -> int:
        problems.add(reflector.problem if store.synced else "")
        return len([request for request in server.requests if request.startswith("GET")])

    async with running(reflector.run()):
        await eventually(lambda: lists() >= 4)
        assert (renewals, problems) == ([], {""})
        del server.objects["configmaps", "default", "a"]
        await eventually(lambda: not store.keys())
        await eventually(lambda: renewals == ["renewed"])
        seen = lists()
        await eventually(lambda: lists() >= seen + 2)
    assert (renewals, problems) == (["renewed"], {""})


@pytest.mark.parametrize("draw", [0.0, 0.999])
async def test_lists_now_and_then_and_watches_once(server: ApiServer, client: KubeClient, draw: float) -> None:
    """What no watch says is found in 10 to 30 minutes, with a watch that is sound all the while."""
    server.put(config_map("a", value="1"))
    store, clock, restarts = Store(value), Clock(), Counted("watch_restarts_total", "reason", kind="ConfigMap")
    reflector = Reflector(client, Scope(CONFIG_MAPS), store, clock=clock, random=lambda: draw)
    least, most = RELIST
    assert (least, most) == (600, 1800)
    async with running(reflector.run()):
        await eventually(lambda: bool(server.watches))
        del server.objects["configmaps", "default", "a"]
        clock.now += least + (most - least) * draw - 1
        server.put(config_map("b", value="1"))
        await eventually(lambda: ("default", "b") in store)
        assert ("default", "a") in store
        clock.now += 2
        server.put(config_map("c", value="1"))
        await eventually(lambda: sorted(store.keys()) == [("default", "b"), ("default", "c")])
        assert not reflector.problem
        assert restarts() == {"relist": 1}
        await eventually(lambda: len([r for r in server.requests if r.startswith("WATCH")]) == 2)
        await eventually(lambda: len(server.watches) == 1)
        server.put(config_map("d", value="1"))
        await eventually(lambda: ("default", "d") in store)
    assert len([r for r in server.requests if r.startswith("GET")]) == 2


def _another_uid(server: ApiServer) -> bytes:
    server.objects["configmaps", "default", "a"]["metadata"]["uid"] = "2"
    return json.dumps({"type": "MODIFIED", "object": _versioned(server, "a", uid="2")}).encode()


def _earlier_event(server: ApiServer) -> bytes:
    return json.dumps({"type": "MODIFIED", "object": {**_versioned(server, "b"), **_at(1)}}).encode()


def _earlier_bookmark(server: ApiServer) -> bytes:
    return json.dumps({"type": "BOOKMARK", "object": {"kind": "ConfigMap", **_at(1)}}).encode()


def _at(version: int) -> dict[str, Any]:
    return {"metadata": {"name": "b", "namespace": "default", "resourceVersion": str(version)}}


def _versioned(server: ApiServer, name: str, **metadata: str) -> dict[str, Any]:
    body = config_map(name, value="2")
    return {**body, "metadata": {**body["metadata"], **metadata, "resourceVersion": str(server.version)}}


@pytest.mark.parametrize("event", [_another_uid, _earlier_event, _earlier_bookmark])
async def test_an_event_that_cannot_follow_leads_to_a_list(
    server: ApiServer, client: KubeClient, event: Callable[[ApiServer], bytes]
) -> None:
    """The uid of an object that was never seen to go, a version that has passed: this is another history."""
    first = config_map("a", value="1")
    server.put({**first, "metadata": {**first["metadata"], "uid": "1"}})
    server.put(config_map("gone", value="1"))
    store, restarts = Store(value), Counted("watch_restarts_total", "reason", kind="ConfigMap")
    told: list[bytes] = []

    async def tell(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
        if "watch" not in request.query or told:
            return None
        told.append(event(server))
        del server.objects["configmaps", "default", "gone"]
        return web.Response(body=told[0] + b"\n", content_type="application/json")

    server.fault = tell
    reflector = Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast())
    async with running(reflector.run()):
        await eventually(lambda: store.keys() == [("default", "a")])
        assert restarts() == {"contradiction": 1}
        await eventually(lambda: not reflector.problem)


async def test_a_list_of_an_earlier_version_is_a_doubt(server: ApiServer, client: KubeClient) -> None:
    """The server was replaced and no watch said so: what was believed of one's own writes is void as well."""
    for number in range(20):
        server.put(config_map("a", value=str(number)))
    store, clock = Store(value), Clock()
    renewed: list[list[tuple[str, str]]] = []
    store.on_renewed(lambda: renewed.append(store.keys()))
    async with running(Reflector(client, Scope(CONFIG_MAPS), store, backoff=fast(), clock=clock).run()):
        await eventually(lambda: bool(server.watches))
        clock.now += RELIST[1]
        server.put(config_map("b", value="1"))  # brings the turn for a list
        server.objects.clear()
        server.version -= 10
        server.objects["configmaps", "default", "kept"] = _stored(server, "kept")
        await eventually(lambda: renewed == [[("default", "kept")]])


def _stored(server: ApiServer, name: str) -> dict[str, Any]:
    return {**config_map(name, value="1"), "metadata": _at(server.version)["metadata"] | {"name": name}}
