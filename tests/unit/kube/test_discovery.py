"""Discovery against an API server that changes and fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.discovery import Discovery
from app.kube.resources import Resource
from app.kube.turns import Turns, request_place, requests_under
from tests.support.fake_apiserver import ApiServer, status
from tests.support.waiting import PATIENCE

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")


def resource_list(*entries: tuple[str, str]) -> web.Response:
    resources = [{"name": name, "kind": kind, "namespaced": True, "verbs": ["create"]} for name, kind in entries]
    return web.json_response({"kind": "APIResourceList", "apiVersion": "v1", "resources": resources})


class Answers:
    """What the API server says of example.com/v1; None is 404."""

    def __init__(self, server: ApiServer) -> None:
        self.found: Any = None
        server.fault = self

    async def __call__(self, _server: ApiServer, _request: web.Request) -> web.Response:
        if isinstance(self.found, int):
            return web.json_response(status(self.found, "ServiceUnavailable", "not now"), status=self.found)
        if self.found is None:
            return web.json_response(status(404, "NotFound", "no such group"), status=404)
        return resource_list(*self.found)


async def test_a_subresource_with_the_kind_of_its_resource_is_not_taken(server: ApiServer, client: KubeClient) -> None:
    Answers(server).found = [("widgets/status", "Widget"), ("widgets", "Widget"), ("gadgets", "Widget")]
    assert await Discovery(client).resource_of("example.com/v1", "Widget") == WIDGETS


async def test_a_list_is_read_once_however_many_ask(server: ApiServer, client: KubeClient) -> None:
    Answers(server).found = [("widgets", "Widget")]
    discovery = Discovery(client)
    found = await asyncio.gather(*(discovery.resource_of("example.com/v1", "Widget") for _ in range(20)))
    assert found == [WIDGETS] * 20
    assert await discovery.resource_of("example.com/v1", "Widget") == WIDGETS
    assert server.requests == ["GET /apis/example.com/v1"]


async def test_a_miss_is_asked_for_again_after_the_interval_or_when_told(server: ApiServer, client: KubeClient) -> None:
    answers, now = Answers(server), [0.0]
    discovery = Discovery(client, interval=10, clock=lambda: now[0])
    assert await discovery.resource_of("example.com/v1", "Widget") is None
    answers.found = [("widgets", "Widget")]
    now[0] += 9
    assert await discovery.resource_of("example.com/v1", "Widget") is None
    assert len(server.requests) == 1
    now[0] += 1
    assert await discovery.resource_of("example.com/v1", "Widget") == WIDGETS
    answers.found = None
    assert await discovery.resource_of("example.com/v1", "Widget") == WIDGETS
    discovery.forget()
    assert await discovery.resource_of("example.com/v1", "Widget") is None
    assert len(server.requests) == 3


async def test_a_fault_is_no_answer_and_is_not_remembered(server: ApiServer, client: KubeClient) -> None:
    answers = Answers(server)
    answers.found = 503
    discovery = Discovery(client)
    with pytest.raises(ApiError) as caught:
        await discovery.resource_of("example.com/v1", "Widget")
    assert caught.value.status == 503
    answers.found = [("widgets", "Widget")]
    assert await discovery.resource_of("example.com/v1", "Widget") == WIDGETS


async def test_who_gives_up_takes_nothing_from_the_others(server: ApiServer, client: KubeClient) -> None:
    Answers(server).found = [("widgets", "Widget")]
    discovery = Discovery(client)
    first = asyncio.create_task(discovery.resource_of("example.com/v1", "Widget"))
    await asyncio.sleep(0)
    second = asyncio.create_task(discovery.resource_of("example.com/v1", "Widget"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == WIDGETS


async def test_after_a_silence_that_all_gave_up_the_next_asks_anew(server: ApiServer, client: KubeClient) -> None:
    silent, never = asyncio.Event(), asyncio.Event()

    async def silence(_server: ApiServer, _request: web.Request) -> web.Response:
        silent.set()
        await never.wait()
        raise AssertionError

    server.fault = silence
    discovery = Discovery(client)
    first = asyncio.create_task(discovery.resource_of("example.com/v1", "Widget"))
    await silent.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    Answers(server).found = [("widgets", "Widget")]
    async with asyncio.timeout(PATIENCE):
        assert await discovery.resource_of("example.com/v1", "Widget") == WIDGETS
    never.set()


@pytest.mark.parametrize("api_version", ["", "/v1", "a/b/c", "apps/", "..", "../v1", "apps/.."])
async def test_what_is_no_group_and_version_is_not_asked_for(
    server: ApiServer, client: KubeClient, api_version: str
) -> None:
    assert await Discovery(client).resource_of(api_version, "Widget") is None
    assert server.requests == []


async def test_what_all_wait_for_takes_no_turn_of_the_namespace_that_asked_first(
    server: ApiServer, client: KubeClient
) -> None:
    Answers(server).found = [("widgets", "Widget")]
    with requests_under(Turns(total=1, each=1), "alice"):
        async with request_place(), asyncio.timeout(PATIENCE):  # all places of alice are taken
            assert await Discovery(client).resource_of("example.com/v1", "Widget") == WIDGETS
