"""The real process with a cluster behind it: the rights of an existing deployment, and what a miss in the cache becomes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.kube.resources import NETWORK_ATTACHMENTS
from tests.support.fake_apiserver import ApiServer, config_map, parse_path, status, write_kubeconfig

PLURAL = NETWORK_ATTACHMENTS.plural


async def rights_of_the_peer(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
    """Everything on attachments, `get` on ConfigMaps."""
    plural, _, name = parse_path(request.path)
    if plural == "configmaps" and name is None:
        return web.json_response(status(403, "Forbidden", "configmaps is forbidden"), status=403)
    return None


def broken_attachments(answer: Callable[[], Any]) -> Callable[[ApiServer, web.Request], Any]:
    async def fault(server: ApiServer, request: web.Request) -> web.StreamResponse | None:
        plural, _, name = parse_path(request.path)
        if plural == PLURAL and name is not None:
            return await answer()
        return await rights_of_the_peer(server, request)

    return fault


async def unavailable() -> web.StreamResponse:
    return web.json_response(status(503, "ServiceUnavailable", "etcd is away"), status=503)


async def forbidden() -> web.StreamResponse:
    return web.json_response(status(403, "Forbidden", "attachments are forbidden"), status=403)


async def silence() -> web.StreamResponse:
    await asyncio.sleep(60)
    raise AssertionError


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    server = ApiServer()
    server.fault = rights_of_the_peer
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def webhook(launch, pki, api: ApiServer, tmp_path: Path) -> AsyncIterator[Any]:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
    switches = json.dumps({"features": {"enableHugePageDownApi": True}})
    api.put(config_map("nri-control-switches", namespace="kube-system", **{"config.json": switches}))
    started = launch(pki, "--insecure", f"--kubeconfig={kubeconfig}", source=None)
    yield await asyncio.to_thread(started.until_ready)
    await asyncio.to_thread(started.stop)


def selecting(review: dict[str, Any], networks: str) -> dict[str, Any]:
    review["request"]["object"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = networks
    return review


async def test_a_miss_asks_once_and_only_not_found_is_a_denial(webhook, api: ApiServer, review) -> None:
    asked = selecting(review("webhook-demo"), "foo-network, foo-network")
    path = f"GET /apis/k8s.cni.cncf.io/v1/namespaces/default/{PLURAL}/foo-network"

    async def answer(path: str = "/mutate") -> tuple[int, dict[str, Any]]:
        code, body = await asyncio.to_thread(webhook.post, asked, path)
        return code, body["response"]

    code, response = await answer()
    assert (code, response["allowed"]) == (200, False)
    assert response["status"]["message"].startswith("could not find network attachment definition 'default/foo-")
    assert api.requests.count(path) == 1
    for fault, path, reason in (
        (unavailable, "/mutate", "Unavailable"),
        (forbidden, "/mutate", "Unavailable"),
        (silence, "/mutate?timeout=1s", "DeadlineExceeded"),
    ):
        api.fault = broken_attachments(fault)
        code, response = await answer(path)
        assert (code, response["allowed"], response["status"]["reason"]) == (500, False, reason)
    api.fault = rights_of_the_peer
    metadata = {"name": "foo-network", "namespace": "default"}
    metadata["annotations"] = {"k8s.v1.cni.cncf.io/resourceName": "example.com/foo"}
    api.put(
        {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": metadata}, plural=PLURAL
    )
    code, response = await answer()
    assert (code, response["allowed"]) == (200, True)
    assert "patch" in response


async def test_a_crafted_name_reads_nothing(webhook, api: ApiServer, review) -> None:
    before = len(api.requests)
    for name in ("../../../../../../api/v1/namespaces/kube-system/secrets/x", "..", "a%2f..%2fb", "", "a?watch=true"):
        asked = selecting(review("webhook-demo"), json.dumps([{"name": name}]))
        code, answer = await asyncio.to_thread(webhook.post, asked)
        assert (code, answer["response"]["allowed"]) == (200, False)
        assert "k8s.v1.cni.cncf.io/networks" in answer["response"]["status"]["message"]
    assert [request for request in api.requests[before:] if "configmaps" not in request] == []
