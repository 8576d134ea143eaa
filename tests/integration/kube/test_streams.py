"""Watches take no connection away from other requests, however many there are."""

from __future__ import annotations

import contextlib

from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS
from tests.support.fake_apiserver import ApiServer, config_map

WATCHES = 150
"""More than the library has connections to a server, unless it is told otherwise."""


async def test_a_request_is_sent_beside_more_watches_than_a_pool_has_connections(
    server: ApiServer, client: KubeClient
) -> None:
    server.put(config_map("a"))
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(WATCHES):
            watch = client.watch(CONFIG_MAPS, resource_version="1")
            await stack.enter_async_context(contextlib.aclosing(watch))
            assert await anext(watch) == b""
        assert (await client.get(CONFIG_MAPS, "a", namespace="default"))["metadata"]["name"] == "a"
