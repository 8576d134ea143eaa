"""One object that may be got, and neither listed nor watched: the right that Network Resources Injector's role gives."""

from __future__ import annotations

from aiohttp import web

from app.kube.backoff import Backoff
from app.kube.polling import Poller
from app.kube.reflector import Reflector
from app.kube.resources import CONFIG_MAPS
from app.kube.store import Store
from app.kube.transport import AioKubeClient
from tests.kube.apiserver import ApiServer, config_map, eventually, parse_path, running, status


async def get_alone(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    if parse_path(request.path)[2] is not None:
        return None
    return web.json_response(status(403, "Forbidden", "configmaps is forbidden"), status=403)


async def nothing(server: ApiServer, request: web.Request) -> web.StreamResponse:
    return web.json_response(status(403, "Forbidden", "configmaps is forbidden"), status=403)


async def broken(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    if parse_path(request.path)[2] is None:
        return await get_alone(server, request)
    return web.Response(status=502)


def feeders(client: AioKubeClient, store: Store[str]) -> tuple[Reflector, Poller]:
    reflector = Reflector(client, CONFIG_MAPS, store, namespace="default", backoff=Backoff(base=0.05, cap=0.1))
    return reflector, Poller(client, reflector, namespace="default", name="a", interval=0.05)


async def test_what_may_only_be_got_is_followed_and_faults_keep_it(server: ApiServer, client: AioKubeClient) -> None:
    store: Store[str] = Store(lambda obj: str(obj["data"]["value"]))
    server.fault = get_alone
    server.put(config_map("b", value="of somebody else"))
    reflector, poller = feeders(client, store)
    async with running(reflector.run()), running(poller.run()):
        await eventually(lambda: poller.healthy)
        assert store.synced
        assert store.keys() == []
        server.put(config_map("a", value="1"))
        await eventually(lambda: store.get("default", "a") == "1")
        server.fault = broken
        asked = len(server.requests)
        await eventually(lambda: len(server.requests) > asked + 8)
        assert poller.healthy
        assert store.get("default", "a") == "1"
        server.fault = get_alone
        server.remove("a")
        await eventually(lambda: store.get("default", "a") is None)


async def test_who_may_not_even_get_is_told_so(server: ApiServer, client: AioKubeClient) -> None:
    store: Store[str] = Store(lambda obj: str(obj["data"]["value"]))
    server.fault = nothing
    reflector, poller = feeders(client, store)
    async with running(reflector.run()), running(poller.run()):
        await eventually(lambda: any(request.endswith("/configmaps/a") for request in server.requests))
        assert not poller.healthy
        assert not store.synced


async def test_it_gives_way_to_the_reflector(server: ApiServer, client: AioKubeClient) -> None:
    store: Store[str] = Store(lambda obj: str(obj["data"]["value"]))
    server.fault = get_alone
    server.put(config_map("a", value="1"))
    reflector, poller = feeders(client, store)
    async with running(reflector.run()), running(poller.run()):
        await eventually(lambda: store.get("default", "a") == "1")
        server.fault = None
        await eventually(lambda: reflector.healthy)
        assert not poller.healthy
        server.put(config_map("a", value="2"))
        await eventually(lambda: store.get("default", "a") == "2")
