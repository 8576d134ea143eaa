"""How many connections a caller has, which of them give way, and that a connection is whose certificate it shows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from app.certs.issuing import Issued
from app.tenancy.gateway.settings import Limits
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.workloads.model import TENANTS
from tests.integration.tenancy.gateway.halfsent import HalfSent
from tests.support.gateway_calls import fails, rule, rules
from tests.support.tenancy import Door, Infra, Start
from tests.support.waiting import PATIENCE, eventually

_ACCEPTS = 0x10000
"""The flag of a socket that listens, in /proc/net/unix."""
CODE = grpc.StatusCode
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connections(door: Door, identity: Issued, count: int) -> AsyncIterator[list[Connection]]:
    """So many, opened one after the other with one certificate, on which HTTP/2 has begun and no call."""
    made: list[Connection] = []
    for _ in range(count):
        reader, writer = await door.connection(identity)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readexactly(9)
        made.append((reader, writer))
    yield made
    for _, writer in made:
        writer.close()


async def is_closed(connection: Connection) -> bool:
    """Once everything that was on its way has come."""
    with contextlib.suppress(ConnectionError):
        while await connection[0].read(65536):
            pass
    return True


async def listed(channel: Any) -> Any:
    return await rules(channel).List(pb.ListWorkloadRulesRequest(), timeout=PATIENCE)


async def test_a_caller_with_too_many_connections_loses_its_oldest(infra: Infra, start: Start) -> None:
    """Whatever certificates it calls with; another's are left alone."""
    await infra.add_tenant("tenant1")
    await infra.add_tenant("tenant2")
    door = await start(limits=Limits(connections_per_tenant=3))
    other = rules(door.tenant("tenant2")).Watch(pb.WatchWorkloadRulesRequest())
    assert (await other.read()).synced
    watches = []
    for _ in range(5):
        watches.append(rules(door.tenant("tenant1")).Watch(pb.WatchWorkloadRulesRequest()))
        assert (await watches[-1].read()).synced
    for watch in watches[:2]:
        assert (await fails(watch)).code() is CODE.UNAVAILABLE
    assert not any(watch.done() for watch in (*watches[2:], other))
    for watch in (*watches, other):
        watch.cancel()


async def test_a_certificate_has_no_more_connections_before_it_calls(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(connections_per_tenant=3))
    async with connections(door, door.pki.tenant("tenant1"), 5) as opened:
        assert await is_closed(opened[0])
        assert await is_closed(opened[1])
        await listed(door.tenant("tenant1"))
        assert not any(reader.at_eof() for reader, _ in opened[2:])


async def test_a_connection_is_its_certificate_s_until_it_calls(infra: Infra, start: Start) -> None:
    """Connections that are gone count no more, whoever had them."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(connections_per_tenant=3))
    identity = door.pki.tenant("tenant1")
    watch = rules(door.channel(identity)).Watch(pb.WatchWorkloadRulesRequest())
    assert (await watch.read()).synced
    for _ in range(3):
        async with connections(door, identity, 3) as opened, door.tenant("tenant1") as channel:
            await listed(channel)
            assert not any(reader.at_eof() for reader, _ in opened)
    assert not watch.done()
    watch.cancel()


async def test_strangers_give_way_to_callers(infra: Infra, start: Start) -> None:
    """Where all places are taken, the oldest connection that no caller has is closed, and a caller's stays."""
    await infra.add_tenant("tenant1")
    await infra.add_tenant("tenant2")
    door = await start(limits=Limits(connections=4))
    first = rules(door.tenant("tenant1")).Watch(pb.WatchWorkloadRulesRequest())
    assert (await first.read()).synced
    async with connections(door, door.pki.tenant("stranger"), 3) as strange:
        await listed(door.tenant("tenant2"))
        assert await is_closed(strange[0])
        async with connections(door, door.pki.tenant("stranger"), 3):
            assert await is_closed(strange[1])
            await listed(door.tenant("tenant1"))
    assert not first.done()
    first.cancel()


CROWDED = Limits(connections=3)


async def gives_way(door: Door, channel: grpc.aio.Channel) -> bool:
    """Whether this connection is closed for new ones of a stranger; else the oldest of these is."""
    async with connections(door, door.pki.tenant("other"), CROWDED.connections) as strange:
        oldest = asyncio.create_task(is_closed(strange[0]))
        await eventually(lambda: oldest.done() or not _is_ready(channel))
        oldest.cancel()
        return not _is_ready(channel)


def _is_ready(channel: grpc.aio.Channel) -> bool:
    return channel.get_state() is grpc.ChannelConnectivity.READY


async def test_a_tenant_that_is_suspended_is_a_stranger_until_it_is_served(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1", suspended=True)
    door = await start(limits=CROWDED)
    channel = door.tenant("tenant1")
    assert (await fails(listed(channel))).code() is CODE.PERMISSION_DENIED
    assert await gives_way(door, channel)
    await infra.client.patch(TENANTS, "tenant1", {"spec": {"suspended": False}}, patch_type="merge")
    await eventually(lambda: _answers(channel))
    assert not await gives_way(door, channel)


async def test_health_is_for_strangers_too_and_makes_no_caller_of_them(infra: Infra, start: Start) -> None:
    await infra.add_tenant("tenant1")
    door = await start(limits=CROWDED)
    for name in ("stranger", "tenant1"):
        channel = door.tenant(name)
        await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
        assert await gives_way(door, channel) is (name == "stranger")


async def test_handshakes_leave_time_for_those_who_are_connected(
    infra: Infra, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many of them the listener rests."""
    monkeypatch.setattr("app.serving.listener._PAUSE_SECONDS", 10 * PATIENCE)
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(handshakes=2))
    first, second = door.tenant("tenant1"), door.tenant("tenant1")
    await listed(first)
    await listed(second)
    third = asyncio.create_task(door.connection(door.pki.tenant("tenant1")))
    for _ in range(20):
        await listed(first)
    assert not third.done()
    third.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await third


async def test_headers_without_an_end_close_the_connection(infra: Infra, start: Start) -> None:
    """gRPC would keep them for as long as they come."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(keepalive=10 * PATIENCE))
    reader, writer = await door.connection(door.pki.tenant("tenant1"))
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" + b"\0\0\1\1\0\0\0\0\1\x83")
    with contextlib.suppress(ConnectionError):
        for _ in range(20):
            writer.write(b"\0\x3a\x98\x09\0\0\0\0\1" + b"\0\1a\1b" * 3000)
            await writer.drain()
    async with asyncio.timeout(PATIENCE):
        assert await is_closed((reader, writer))
    writer.close()
    await listed(door.tenant("tenant1"))


async def test_what_a_stranger_sends_is_taken_in_slowly(infra: Infra, start: Start) -> None:
    """Of each of its calls gRPC takes in 64 KiB before it is refused; nothing of another's is held up by it."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(strange_bytes_per_second=1e-3, strange_bytes_burst=200_000))
    stranger = await HalfSent.begin(door, "stranger", path="/none/None", calls=50, size=100_000)
    sending = asyncio.create_task(stranger.send_all_it_can())
    await eventually(lambda: stranger.ended)
    for _ in range(20):
        await listed(door.tenant("tenant1"))
    assert stranger.ended < 50
    assert not sending.done()
    sending.cancel()
    await stranger.end()


async def _answers(channel: Any) -> bool:
    try:
        await listed(channel)
    except grpc.aio.AioRpcError:
        return False
    return True


def _abstract_sockets_of_ours() -> set[str]:
    """The names on which this process listens, as anybody on its machine reads them (proc_net(5))."""
    ours = {link for file in Path("/proc/self/fd").iterdir() if (link := _target(file)).startswith("socket:")}
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    listening = [row for row in rows if int(row[3], 16) & _ACCEPTS and f"socket:[{row[6]}]" in ours]
    return {row[7].removeprefix("@") for row in listening if row[7:] and row[7].startswith("@berth-gateway-")}


def _target(file: Path) -> str:
    with contextlib.suppress(FileNotFoundError):  # the descriptor with which the folder is read
        return str(file.readlink())
    return ""


async def test_who_comes_past_the_front_is_nobody(door: Door) -> None:
    """gRPC listens in this process's network alone, and serves no connection that the front did not hand on."""
    (inside,) = _abstract_sockets_of_ours()
    channel = grpc.aio.insecure_channel(f"unix-abstract:{inside}")
    assert (await fails(rules(channel).Create(pb.CreateWorkloadRuleRequest(rule=rule())))).code() is CODE.UNAVAILABLE
    assert door.seen.refusals == []
    await channel.close()
    await listed(door.tenant("tenant1"))


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 100])
async def test_what_is_no_tls_is_closed_in_time(
    infra: Infra, start: Start, first: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """And takes no place any more."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(handshake=0.5, connections=1))
    host, port = door.address.split(":")
    for _ in range(2):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(first)
        assert await is_closed((reader, writer))
        writer.close()
    assert "all connections are taken" not in capsys.readouterr().out


async def test_no_more_of_a_chunk_is_handed_on_than_its_cost_allows(infra: Infra, start: Start) -> None:
    """What comes in at once may ask for gigabytes of headers."""
    await infra.add_tenant("tenant1")
    door = await start(limits=Limits(strange_bytes_per_second=1e-3, strange_bytes_burst=100_000))
    reader, writer = await door.connection(door.pki.tenant("tenant1"))
    frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" + b"".join(
        b"\0\x3e\x80\1\4" + number.to_bytes(4, "big") + b"\x82" * 16_000 for number in range(1, 21, 2)
    )
    writer.write(frames)
    for _ in range(20):
        await listed(door.tenant("tenant1"))
    assert _streams(await reader.read(65_536)) == {0}
    writer.close()


def _streams(frames: bytes) -> set[int]:
    """The streams that these frames of HTTP/2 are about; 0 is the connection itself."""
    streams = set()
    while frames:
        streams.add(int.from_bytes(frames[5:9], "big"))
        frames = frames[9 + int.from_bytes(frames[:3], "big") :]
    return streams
