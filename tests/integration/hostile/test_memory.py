"""The memory of each port has a bound: real processes under a real limit (RLIMIT_DATA), near that of the chart.

The limit counts more than a container's does: buffers that were never touched, and stacks of threads.
"""

from __future__ import annotations

import asyncio
import json
import resource
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio

from app.serving.memory import REFUSALS
from app.tenancy.model import GATEWAY_NAME
from app.tenancy.proto.universe.admin.workload.v1.admin_workload_rule_pb2 import ListRequest
from tests.integration.hostile.conftest import Connections, memory, settle, told
from tests.support.floods import GRPC, HEALTH, LARGEST, MIB, POST, REVIEWS, Port, crowded, http2, plain, secured
from tests.support.gateway_calls import admin_rules
from tests.support.staging import Stage, staged
from tests.support.waiting import PATIENCE
from tests.support.webhook_process import ATTACHMENTS, Pki, Webhook, flags_for, load_review

REVIEWS_LIMIT, HEALTH_LIMIT, GATEWAY_LIMIT = 512 * MIB, 256 * MIB, 1024 * MIB
"""Near that of `webhook` in charts/berth/values.yaml, above that of `certificates`, and that of `gateway`: what was
never touched counts here. `python -m bench.memory` has what the same floods take of resident memory.
"""


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Callable[[int], Webhook]]:
    """Starts a webhook that may have so many bytes of data. In the end it is well, and has logged no error."""
    started: list[Webhook] = []

    def start(limit: int) -> Webhook:
        (tmp_path / "manifests").mkdir()
        (tmp_path / "manifests" / "nads.yaml").write_text(ATTACHMENTS)
        pki = Pki(tmp_path / "pki")
        started.append(Webhook(pki, *flags_for(pki, tmp_path / "manifests"), "--insecure").until_ready())
        resource.prlimit(started[0].process.pid, resource.RLIMIT_DATA, (limit, limit))
        return started[0]

    yield start
    for webhook in started:
        well(webhook)
        told(f"{memory(webhook.process.pid):.0f} MiB")
        webhook.stop()
        assert [line for line in webhook.lines if '"level":"error"' in line] == []


def well(webhook: Webhook) -> None:
    assert webhook.process.poll() is None
    status, answer = webhook.post(load_review("webhook-demo"))
    assert (status, answer["response"]["allowed"]) == (200, True), answer
    assert webhook.get("/healthz") == (200, "ok")
    assert webhook.process.poll() is None


def port_of(webhook: Webhook) -> Port:
    return Port(webhook.address, webhook.pki.context())


@pytest.mark.parametrize("attack", REVIEWS)
def test_reviews(limited: Callable[[int], Webhook], left: Connections, attack: str) -> None:
    webhook = limited(REVIEWS_LIMIT)
    REVIEWS[attack](port_of(webhook), left)
    well(webhook)


def test_a_large_review_finds_room_beside_bodies_without_an_end(
    limited: Callable[[int], Webhook], left: Connections
) -> None:
    """Also where they come from the same address. Until then it is asked to come again."""
    webhook = limited(REVIEWS_LIMIT)
    secured(port_of(webhook), 30, POST + b"Content-Length: %d\r\n\r\n" % LARGEST + b" " * MIB, left)
    review = load_review("webhook-demo")
    review["request"]["object"]["metadata"]["annotations"]["large"] = "x" * 3 * MIB
    body, statuses = json.dumps(review).encode(), set[int]()
    while 200 not in statuses:
        connection = webhook.connect()
        connection.request("POST", "/mutate", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        statuses.add(answer.status)
        if answer.status == 429:
            assert answer.headers["Retry-After"] == "1"
            assert json.loads(answer.read())["response"]["uid"] == review["request"]["uid"]
        connection.close()
    assert statuses <= {200, 429}
    metrics = webhook.metrics()
    assert metrics['port_request_bytes_limit{port="reviews"}'] == 64 * MIB
    assert sum(metrics[f'port_requests_without_room_total{{port="reviews",reason="{why}"}}'] for why in REFUSALS) > 0


def test_reviews_that_are_far_larger_when_they_are_decoded(limited: Callable[[int], Webhook]) -> None:
    webhook = limited(REVIEWS_LIMIT)
    for path in ("/mutate", "/validate"):
        for containers, status in ((1_000_000, 413), (80_000, 200)):
            assert webhook.post(crowded(containers), path)[0] == status
        well(webhook)


def test_what_was_taken_is_given_back(limited: Callable[[int], Webhook], left: Connections) -> None:
    webhook = limited(REVIEWS_LIMIT)
    before = memory(webhook.process.pid)
    for _ in range(2):
        REVIEWS["bodies without an end"](port_of(webhook), left)
        for connection in left:
            connection.close()
    settle(lambda: webhook.metrics()['port_request_bytes{port="reviews"}'] == 0, "nothing is held")
    well(webhook)
    assert memory(webhook.process.pid) - before < 80


@pytest.mark.parametrize("attack", HEALTH)
def test_health_and_metrics(limited: Callable[[int], Webhook], left: Connections, attack: str) -> None:
    """The port of every role."""
    webhook = limited(HEALTH_LIMIT)
    HEALTH[attack](webhook.health_address, left)
    well(webhook)


class Gateway:
    """A gateway that may have `GATEWAY_LIMIT` bytes of data, and raw connections to it of tenant1."""

    def __init__(self, stage: Stage, process: Any, address: str) -> None:
        self.stage, self.process, self.address = stage, process, address
        host, port = address.split(":")
        self.endpoint = (host, int(port))
        folder = stage.folder / "tenant1"
        self._context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self._context.check_hostname = False
        self._context.set_alpn_protocols(["h2"])
        pid = process.process.pid
        resource.prlimit(pid, resource.RLIMIT_DATA, (GATEWAY_LIMIT, GATEWAY_LIMIT))

    def secured(self, number: int, content: bytes, kept: Connections) -> None:
        """Connections of tenant1 that speak HTTP/2 and read nothing."""
        http2(Port(self.endpoint, self._context), number, content, kept)

    async def is_well(self) -> None:
        """Another caller gets an answer."""
        files = [(self.stage.folder / "admin" / name).read_bytes() for name in ("ca.crt", "admin.key", "admin.crt")]
        options = [("grpc.ssl_target_name_override", GATEWAY_NAME), ("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.secure_channel(self.address, grpc.ssl_channel_credentials(*files), options) as channel:
            request = ListRequest()
            await admin_rules(channel).List(request, timeout=PATIENCE, wait_for_ready=True)
        assert self.process.returncode is None


@pytest_asyncio.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """In the end it is well, and has logged no error."""
    async with staged(tmp_path) as stage:
        process, address = await stage.gateway()
        found = Gateway(stage, process, address)
        yield found
        await found.is_well()
        told(f"{memory(process.process.pid):.0f} MiB")
        assert [line for line in process.lines if '"level":"error"' in line] == []


@pytest.mark.parametrize("attack", GRPC)
async def test_grpc(gateway: Gateway, left: Connections, attack: str) -> None:
    """By a tenant, who has the certificate for it."""
    await asyncio.to_thread(gateway.secured, 40, GRPC[attack], left)
    await gateway.is_well()


async def test_grpc_without_a_certificate(gateway: Gateway, left: Connections) -> None:
    await asyncio.to_thread(plain, gateway.endpoint, 3000, b"\x16\x03\x01\x02\0\1\0", left)
    await gateway.is_well()
