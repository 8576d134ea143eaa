"""A real gateway: raw bytes and changed messages to every method, floods of streams and connections, slow readers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from app.tenancy.gateway.server import AUDIENCES
from app.tenancy.gateway.settings import Limits
from app.tenancy.model import GATEWAY_NAME
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2_grpc as rule_grpc
from tests.integration.hostile.conftest import UNSEEN, descriptors, memory, told
from tests.integration.hostile.generators import anything, broken, cases, changed, networks, texts
from tests.support.gateway_calls import admin_rule, data, manifest, rule, spec
from tests.support.processes import Berth
from tests.support.staging import Stage, staged
from tests.support.waiting import PATIENCE, eventually

MANY = 10_000
GROWTH = 320
"""MiB, for 2,048 connections."""
KEPT = Limits().connections
UNKNOWN = {"UNKNOWN", "INTERNAL", "DATA_LOSS"}
"""What would be a fault of ours."""
OURS = {name: audience for name, audience in AUDIENCES.items() if name.startswith("universe.")}
Cases = list[tuple[str, bytes]]


class Gateway:
    """The process and channels to it."""

    def __init__(self, stage: Stage, process: Berth, address: str) -> None:
        self.folder, self.process, self.address = stage.folder, process, address
        host, port = address.split(":")
        self.endpoint = (host, int(port))
        self.pid = process.process.pid

    def files(self, name: str) -> list[bytes]:
        stem = "admin" if name == "admin" else "tls"
        return [(self.folder / name / file).read_bytes() for file in ("ca.crt", f"{stem}.key", f"{stem}.crt")]

    def channel(self, name: str = "tenant1", **options: Any) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(*self.files(name))
        fixed = {
            "grpc.ssl_target_name_override": GATEWAY_NAME,
            "grpc.use_local_subchannel_pool": 1,
            "grpc.enable_retries": 0,
            "grpc.max_send_message_length": -1,
            "grpc.max_reconnect_backoff_ms": 1000,
        }
        return grpc.aio.secure_channel(self.address, credentials, options=list((fixed | options).items()))

    def context(self) -> ssl.SSLContext:
        """As tenant1, over HTTP/2."""
        context = ssl.create_default_context(cadata=self.files("tenant1")[0].decode())
        context.load_cert_chain(self.folder / "tenant1" / "tls.crt", self.folder / "tenant1" / "tls.key")
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        return context

    async def is_well(self) -> float:
        """A new connection gets an answer; the milliseconds that it took."""
        began = time.perf_counter()
        async with self.channel() as channel:
            await self.answers(channel)
        assert self.process.returncode is None
        return (time.perf_counter() - began) * 1000

    async def answers(self, channel: grpc.aio.Channel) -> None:
        stub = rule_grpc.WorkloadRuleServiceStub(channel)
        await stub.List(pb.ListWorkloadRulesRequest(), timeout=PATIENCE, wait_for_ready=True)  # type: ignore[misc]  # the stub's aio twin


@pytest_asyncio.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """In the end it is well, and its log is sound."""
    many = (MANY + 2_000, max(MANY + 2_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[0] != resource.RLIM_INFINITY and before[0] < many[0]:
        resource.setrlimit(resource.RLIMIT_NOFILE, many)
    async with staged(tmp_path) as stage:
        process, address = await stage.gateway("--calls-per-second=100000", "--calls-burst=100000")
        found = Gateway(stage, process, address)
        yield found
        await found.is_well()
        for line in process.lines:
            assert not UNSEEN.search(line[:-1]), ascii(line)
            assert len(line) < 8192
            assert json.loads(line)["level"] != "error", line
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def methods() -> Iterator[tuple[str, str, Any]]:
    """(audience, path, descriptor) of each method of ours."""
    pool = descriptor_pool.Default()
    for service, audience in OURS.items():
        for method in pool.FindServiceByName(service).methods:
            yield audience, f"/{service}/{method.name}", method


async def call(channel: grpc.aio.Channel, path: str, method: Any, content: bytes) -> str:
    """The name of the status that one message gets; of an answer without end, what begins it."""
    try:
        async with asyncio.timeout(PATIENCE):
            if method.client_streaming:
                stream = channel.stream_unary(path)()
                # Where the call is over already the client cannot write; how it ended is said below.
                with contextlib.suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError, grpc.aio.InternalError):
                    await stream.write(content)
                    await stream.done_writing()
                await stream
            elif method.server_streaming:
                watch = channel.unary_stream(path)(content)
                await watch.read()
                watch.cancel()
            else:
                await channel.unary_unary(path)(content)
    except grpc.aio.AioRpcError as error:
        return error.code().name if "Traceback" not in (error.details() or "") else "UNKNOWN"
    return "OK"


def messages_of(method: Any) -> st.SearchStrategy[bytes]:
    """Anything, or a message of the method with parts of any kind, or one that was damaged."""
    kind = message_factory.GetMessageClass(method.input_type)
    good = [found.SerializeToString() for found in originals(kind)]
    return st.binary(max_size=200) | st.sampled_from(good) | st.sampled_from(good).flatmap(broken) | odd(kind)


def originals(kind: type[Message]) -> list[Message]:
    """Good messages of a method that takes more than a name."""
    pod = manifest("Pod", "pod1", spec={"containers": [{"name": "a", "image": "b"}]})
    samples: list[Any] = [
        {"rule": json_format.MessageToDict(rule())},
        {"rule": json_format.MessageToDict(admin_rule())},
        {"id": "rule1"},
        {"type": {"apiVersion": "v1", "kind": "Pod"}, "name": "pod1"},
        {"update": {"id": "0" * 36}},
    ]
    made: list[Message] = [kind()]
    for sample in samples:
        with contextlib.suppress(json_format.ParseError):
            made.append(json_format.ParseDict(sample, kind(), ignore_unknown_fields=True))
    for found in made:
        if "obj" in found.DESCRIPTOR.fields_by_name:
            found.obj.obj_spec = json.dumps(pod).encode()  # type: ignore[attr-defined]  # looked up in the line above
    return made


@st.composite
def odd(draw: st.DrawFn, kind: Any) -> bytes:
    """A message with odd texts and bytes in its fields, those of the messages in it too."""
    return filled(draw, kind(), depth=0).SerializeToString()


def filled(draw: st.DrawFn, message: Any, *, depth: int) -> Any:
    sound = texts.map(lambda text: text.encode(errors="replace").decode())
    documents = (
        changed(manifest("Pod", "p", spec={"containers": [{"name": "a", "image": "b"}]}))
        | changed(spec("a"))
        | anything
    )
    for field in message.DESCRIPTOR.fields:
        if not draw(st.booleans()):
            continue
        number = draw(st.integers(1, 3)) if field.is_repeated else 1
        for _ in range(number):
            if field.message_type is not None:
                if depth < 5 and not field.message_type.GetOptions().map_entry:
                    target = getattr(message, field.name)
                    filled(draw, target.add() if field.is_repeated else target, depth=depth + 1)
                continue
            value: Any = {
                field.CPPTYPE_STRING: (
                    (documents.map(json.dumps) | networks).map(str.encode) | st.binary(max_size=50)
                    if field.type == field.TYPE_BYTES
                    else sound
                ),
                field.CPPTYPE_BOOL: st.booleans(),
                field.CPPTYPE_ENUM: st.integers(-1, 7),
            }.get(field.cpp_type, st.integers(0, 2**31 - 1))
            if field.is_repeated:
                getattr(message, field.name).append(draw(value))
            else:
                setattr(message, field.name, draw(value))
    return message


def gathered(number: int, method: Any) -> list[bytes]:
    """So many messages for a method, the same ones at every run."""
    found: list[bytes] = []

    @cases(number)
    @given(content=messages_of(method))
    def gather(content: bytes) -> None:
        found.append(content)

    gather()
    return found


async def test_any_message_to_any_method(gateway: Gateway) -> None:
    """As who may call it, and as who may not: an error of the call, never of the gateway."""
    async with gateway.channel("tenant1") as tenant, gateway.channel("admin") as admin:
        channels = {"tenant": tenant, "admin": admin}
        seen: dict[str, int] = {}
        for audience, path, method in methods():
            for content in await asyncio.to_thread(gathered, 40, method):
                code = await call(channels[audience], path, method, content)
                assert code not in UNKNOWN, (path, content, code)
                seen[code] = seen.get(code, 0) + 1
            stranger = channels["admin" if audience == "tenant" else "tenant"]
            assert await call(stranger, path, method, b"\xff" * 20) == "PERMISSION_DENIED", path
    told(seen)
    assert {"OK", "INVALID_ARGUMENT"} <= set(seen)


async def test_methods_that_are_none_and_messages_that_are_too_large(gateway: Gateway) -> None:
    _, good, method = next(found for found in methods() if found[1].endswith("WorkloadRuleService/Create"))
    async with gateway.channel() as channel:
        for path in ("/", "/a", "/a/b", "/" + "a" * 4000 + "/b", f"{good}x", good.replace("/universe", "//universe")):
            assert await call(channel, path, method, b"") in ("UNIMPLEMENTED", "PERMISSION_DENIED", "INTERNAL"), path
        before = memory(gateway.pid)
        for size in (4 * 1024 * 1024 + 1, 64 * 1024 * 1024):
            assert await call(channel, good, method, b"x" * size) == "RESOURCE_EXHAUSTED"
        assert memory(gateway.pid) - before < 200
        deep = pb.CreateWorkloadRuleRequest(rule=rule(data=data(b"[" * 400_000)))
        assert await call(channel, good, method, deep.SerializeToString()) == "INVALID_ARGUMENT"
        call_with = channel.unary_unary(good)
        with pytest.raises(grpc.aio.AioRpcError):
            await call_with(b"", metadata=[("x", "a" * 100_000)], timeout=PATIENCE)


async def test_a_thousand_streams_and_readers_that_do_not_read(gateway: Gateway) -> None:
    """A tenant has its few streams; what is over them is refused, and others are answered."""
    before = memory(gateway.pid)
    path = "/universe.workload.v1.WorkloadRuleService/Watch"
    async with contextlib.AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(gateway.channel()) for _ in range(10)]
        opened = [channels[number % 10].unary_stream(path)(b"") for number in range(1000)]
        await gateway.is_well()
        ended = [stream for stream in opened if stream.done() or await refused(stream)]
        assert len(ended) >= 1000 - Limits().streams_per_tenant
        for stream in opened:
            stream.cancel()
    assert memory(gateway.pid) - before < 200


async def refused(stream: Any) -> bool:
    try:
        async with asyncio.timeout(PATIENCE):
            await stream.read()
    except grpc.aio.AioRpcError as error:
        return bool(error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED)
    return False


FRAMES = {
    "settings again and again": b"\0\0\0\4\0\0\0\0\0" * 5_000,
    "pings": b"\0\0\x08\6\0\0\0\0\0" + b"12345678",
    "half a frame": b"\xff\xff\xff\1\4\0\0\0\1" + b"x" * 100,
    "endless headers": b"\0\0\0\4\0\0\0\0\0\0\x40\0\1\0\0\0\0\1\x40" + b"\x7f" * 16383 + b"\0\x40\0\x09\0\0\0\0\1" * 50,
    "garbage": bytes(range(256)) * 40,
    "nothing": b"",
}


async def test_frames_that_are_none(gateway: Gateway) -> None:
    """HTTP/2 with a good certificate and bad manners."""
    before = memory(gateway.pid)
    context, kept = gateway.context(), []

    def misbehave() -> None:
        for content in list(FRAMES.values()) * 10:
            connection = context.wrap_socket(socket.create_connection(gateway.endpoint, timeout=PATIENCE))
            kept.append(connection)
            with contextlib.suppress(OSError):
                connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + content)

    await asyncio.to_thread(misbehave)
    await gateway.is_well()
    for connection in kept:
        connection.close()
    assert memory(gateway.pid) - before < 100


async def test_ten_thousand_connections_opened_and_left(gateway: Gateway) -> None:
    """Whoever is connected is answered at once; newcomers when the handshakes that never began have been given up."""
    kept: list[socket.socket] = []

    def opened() -> None:
        for number in range(MANY):
            connection = socket.create_connection(gateway.endpoint, timeout=PATIENCE)
            kept.append(connection)
            with contextlib.suppress(OSError):
                connection.sendall(b"\x16\x03\x01\x02\0\1\0" if number % 2 else b"")

    before, took = memory(gateway.pid), await gateway.is_well()
    places = descriptors(gateway.pid)
    async with gateway.channel() as channel:
        await gateway.answers(channel)
        await asyncio.to_thread(opened)
        began = time.perf_counter()
        await gateway.answers(channel)
        among = (time.perf_counter() - began) * 1000
        assert descriptors(gateway.pid) < KEPT + 200
        during = memory(gateway.pid)
        newcomer = await gateway.is_well()
        await gateway.answers(channel)
    await eventually(lambda: descriptors(gateway.pid) <= places + 8)
    after = await gateway.is_well()
    assert max(during, memory(gateway.pid)) - before < GROWTH
    told(
        f"MiB {before:.0f} {during:.0f} {memory(gateway.pid):.0f}, ms {took:.0f} {among:.0f} {newcomer:.0f} {after:.0f}"
    )
    for connection in kept:
        connection.close()
