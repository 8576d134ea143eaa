"""One object that may be got, and neither listed nor watched: the right that Network Resources Injector's role gives."""

from __future__ import annotations

from aiohttp import web

from app.kube.client import KubeClient
from app.kube.reflector import Reflector, Scope
from app.kube.resources import CONFIG_MAPS
from app.kube.retry import Backoff
from app.kube.store import Store
from tests.support.fake_apiserver import ApiServer, config_map, parse_path, status
from tests.support.running import running
from tests.support.waiting import eventually


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


def reflector_of(client: KubeClient, store: Store[str]) -> Reflector:
    backoff = Backoff(base=0.05, cap=0.1)
    return Reflector(client, Scope(CONFIG_MAPS, "default", "a"), store, backoff=backoff, poll=0.05)


async def test_what_may_only_be_got_is_followed_and_faults_keep_it(server: ApiServer, client: KubeClient) -> None:
    store: Store[str] = Store(lambda obj: str(obj["data"]["value"]))
    server.fault = get_alone
    server.put(config_map("b", value="of somebody else"))
    reflector = reflector_of(client, store)
    async with running(reflector.run()):
        await eventually(lambda: reflector.healthy)
        assert store.synced
        assert store.keys() == []
        server.put(config_map("a", value="1"))
        await eventually(lambda: store.get("default", "a") == "1")
        server.fault = broken
        asked = len(server.requests)
        await eventually(lambda: len(server.requests) > asked + 8)
        assert reflector.healthy
        assert store.get("default", "a") == "1"
        server.fault = get_alone
        server.remove("a")
        await eventually(lambda: store.get("default", "a") is None)


async def test_who_may_not_even_get_is_told_so(server: ApiServer, client: KubeClient) -> None:
    store: Store[str] = Store(lambda obj: str(obj["data"]["value"]))
    server.fault = nothing
    reflector = reflector_of(client, store)
    async with running(reflector.run()):
        await eventually(lambda: any(request.endswith("/configmaps/a") for request in server.requests))
        assert not reflector.healthy
        assert not store.synced


async def test_polling_ends_when_lists_are_allowed(server: ApiServer, client: KubeClient) -> None:
    store: Store[str] = Store(lambda obj: str(obj["data"]["value"]))
    server.fault = get_alone
    server.put(config_map("a", value="1"))
    reflector = reflector_of(client, store)
    async with running(reflector.run()):
        await eventually(lambda: store.get("default", "a") == "1")
        server.fault = None
        await eventually(lambda: not reflector.reason)
        asked = sum(request.endswith("/configmaps/a") for request in server.requests)
        server.put(config_map("a", value="2"))
        await eventually(lambda: store.get("default", "a") == "2")
        assert sum(request.endswith("/configmaps/a") for request in server.requests) == asked
