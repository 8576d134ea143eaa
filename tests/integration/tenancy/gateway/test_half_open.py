"""A peer that is gone without a word is noticed, and its streams end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc
import pytest

from app.tenancy.gateway.server import channel_options
from app.tenancy.gateway.settings import Limits
from app.tenancy.model import GATEWAY_NAME
from app.workloads.model import WORKLOADS
from tests.support.gateway_calls import Sender
from tests.support.tenancy import Door, Infra, Pki, Start
from tests.support.waiting import eventually


class Line:
    """Forwards to a port; `cut` drops what comes from there, or all, and closes nothing."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.dropped: set[str] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Line]:
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[None]] = []

            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
                tasks.append(group.create_task(self._pump(reader, far_writer, "there")))
                tasks.append(group.create_task(self._pump(far_reader, writer, "back")))

            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            yield self
            server.close()
            for task in tasks:
                task.cancel()

    def cut(self, *ways: str) -> None:
        self.dropped = set(ways)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: str) -> None:
        with contextlib.suppress(ConnectionError):
            try:
                while data := await source.read(65536):
                    if way not in self.dropped:
                        sink.write(data)
                        await sink.drain()
            finally:
                sink.close()


async def connected(line: Line, pki: Pki) -> grpc.aio.Channel:
    identity = pki.tenant("tenant1")
    credentials = grpc.ssl_channel_credentials(pki.ca, identity.key_pem, identity.certificate_pem)
    options = [("grpc.ssl_target_name_override", GATEWAY_NAME), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.aio.secure_channel(f"127.0.0.1:{line.port}", credentials, options=options)


def open_streams(door: Door) -> int:
    return door.seen.open.get("tenant1", 0)


@pytest.mark.parametrize("silence", [("there", "back"), ("back",)], ids=["idle", "with a ping under way"])
async def test_the_stream_of_a_peer_that_is_gone_ends(
    infra: Infra, start: Start, pki: Pki, silence: tuple[str, ...]
) -> None:
    """Also where a ping that measures bandwidth was under way, which has a minute to be answered by default."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(keepalive=1.0))
    async with Line(door.gateway.port).running() as line, await connected(line, pki) as channel:
        sender = Sender(channel)
        await sender.update("a")
        await eventually(lambda: infra.names(WORKLOADS, "tenant-tenant1"))
        assert open_streams(door) == 1
        await asyncio.sleep(0.3)  # until what the connection began with has been answered
        line.cut(*silence)
        await sender.update("b")
        await eventually(lambda: open_streams(door) == 0)


def test_a_dead_peer_is_noticed_in_less_than_forty_seconds(pki: Pki) -> None:
    """By default; and agents may ping as often as every ten seconds."""
    options = dict(channel_options(Limits()))
    patience = max(options["grpc.keepalive_timeout_ms"], options["grpc.http2.ping_timeout_ms"])
    assert 30_000 <= options["grpc.keepalive_time_ms"] + patience < 40_000
    assert options["grpc.http2.min_ping_interval_without_data_ms"] == 10_000
