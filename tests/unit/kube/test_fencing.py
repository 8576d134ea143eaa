"""The fence around a term of leadership, against a real HTTP server: what is not sent in time is never sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.fencing import Fence, LeaseLost, reset
from app.kube.lease import LeaderElector, LeaseTiming
from app.kube.resources import CONFIG_MAPS, LEASES
from tests.support.fake_apiserver import ApiServer, config_map, status
from tests.support.running import running
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.simulated

FAST = LeaseTiming(duration=1.0, renew_deadline=0.6, retry_period=0.08)


def simulated() -> float:
    return asyncio.get_running_loop().time()


NAMESPACE = {"namespace": "default"}

WRITES: list[Callable[[KubeClient], Any]] = [
    lambda client: client.create(CONFIG_MAPS, config_map("b"), **NAMESPACE),
    lambda client: client.replace(CONFIG_MAPS, "a", config_map("a"), **NAMESPACE),
    lambda client: client.apply(CONFIG_MAPS, "a", config_map("a"), **NAMESPACE),
    lambda client: client.patch(CONFIG_MAPS, "a", {}, patch_type="merge", **NAMESPACE),
    lambda client: client.delete(CONFIG_MAPS, "a", **NAMESPACE),
    lambda client: client.post("/api/v1/namespaces/default/configmaps", config_map("c")),
]


@pytest.mark.parametrize("write", WRITES, ids=["create", "replace", "apply", "patch", "delete", "post"])
async def test_no_write_passes_a_closed_fence_and_every_read_does(
    server: ApiServer, client: KubeClient, write: Callable[[KubeClient], Any]
) -> None:
    server.put(config_map("a"))
    fence = Fence(lambda: True)
    fenced = client.within(fence)
    fence.close()
    with pytest.raises(LeaseLost, match="not held any more"):
        await write(fenced)
    assert server.requests == []
    assert (await fenced.get(CONFIG_MAPS, "a", **NAMESPACE))["metadata"]["name"] == "a"
    assert (await fenced.list_page(CONFIG_MAPS)).items
    async with contextlib.aclosing(fenced.watch(CONFIG_MAPS, resource_version="0")) as lines:
        assert await anext(lines) == b""


async def test_a_term_that_ends_while_the_connection_is_made_sends_nothing(
    server: ApiServer, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was frozen there wakes with a connection, and looks again before it uses it."""
    server.put(config_map("a"))
    in_time = [True]
    connect = aiohttp.TCPConnector.connect

    async def slow(connector: aiohttp.TCPConnector, *arguments: Any, **options: Any) -> Any:
        connection = await connect(connector, *arguments, **options)
        await asyncio.sleep(0.5)
        in_time[0] = False
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(aiohttp.TCPConnector, "connect", slow)
        with pytest.raises(LeaseLost):
            await client.within(Fence(lambda: in_time[0])).delete(CONFIG_MAPS, "a", **NAMESPACE)
    assert server.requests == []
    assert await client.get(CONFIG_MAPS, "a", **NAMESPACE), "the client is as good as before"


@pytest.mark.parametrize("write", WRITES, ids=["create", "replace", "apply", "patch", "delete", "post"])
@pytest.mark.parametrize("answer", ["401", "redirect", "closed connection"])
async def test_a_write_is_not_sent_a_second_time_after_its_term(
    server: ApiServer, client: KubeClient, write: Callable[[KubeClient], Any], answer: str
) -> None:
    """The client sends a write again with new credentials, to another place, or on another connection."""
    server.put(config_map("a"))
    await client.get(CONFIG_MAPS, "a", **NAMESPACE)
    server.requests.clear()
    in_time = [True]

    async def first(_server: ApiServer, request: web.Request) -> web.Response:
        in_time[0] = False
        server.fault = None
        if answer == "401":
            return web.json_response(status(401, "Unauthorized", "expired"), status=401)
        if answer == "redirect":
            return web.Response(status=307, headers={"Location": request.path})
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    server.fault = first
    with pytest.raises(ApiError) as caught:
        await write(client.within(Fence(lambda: in_time[0])))
    assert len(server.requests) == 1
    # A POST or a PATCH may have been carried out: the client does not send it again on another connection.
    # A redirect leads nowhere, in the term or after it.
    again = answer == "401" or (answer != "redirect" and server.requests[0].startswith(("PUT", "DELETE")))
    assert isinstance(caught.value, LeaseLost) == again


@pytest.mark.parametrize("write", WRITES, ids=["create", "replace", "apply", "patch", "delete", "post"])
async def test_a_term_that_ends_before_the_body_is_written_sends_nothing(
    server: ApiServer, client: KubeClient, write: Callable[[KubeClient], Any]
) -> None:
    """The body is written by a task of its own: a process that was frozen before its first step must look again."""
    server.put(config_map("a"))
    looks = iter([True, False])
    with pytest.raises(LeaseLost):
        await write(client.within(Fence(lambda: next(looks))))
    assert next(looks, None) is None, "all looks were taken"
    assert server.requests == []
    assert await client.get(CONFIG_MAPS, "a", **NAMESPACE), "the client is as good as before"


@pytest.mark.parametrize("steps", range(5))
async def test_a_term_may_be_closed_while_a_write_ends_that_its_last_look_has_refused(
    server: ApiServer, client: KubeClient, steps: int
) -> None:
    """The elector of a process that was frozen wakes in any step of the event loop after that."""
    refused = asyncio.Event()

    def look() -> bool:
        if next(looks):
            return True
        refused.set()
        return False

    looks = iter([True, False])
    fence = Fence(look)
    writing = asyncio.create_task(client.within(fence).create(CONFIG_MAPS, config_map("b"), **NAMESPACE))
    await refused.wait()
    for _ in range(steps):
        await asyncio.sleep(0)
    fence.close()
    with pytest.raises(LeaseLost):
        await writing
    assert server.requests == []


async def test_what_is_under_way_is_cut_and_its_connection_is_reset(server: ApiServer, client: KubeClient) -> None:
    """A server that was not reached yet would else get it later, from the kernel that goes on sending."""
    came, went = asyncio.Event(), asyncio.Event()

    async def slow(_server: ApiServer, request: web.Request) -> web.Response:
        came.set()
        try:
            await asyncio.sleep(30)
        finally:
            if request.transport is None or request.transport.is_closing():
                went.set()
        return web.json_response({})

    server.fault = slow
    fence = Fence(lambda: True)
    fenced = client.within(fence)
    writing = asyncio.create_task(fenced.create(CONFIG_MAPS, config_map("b"), **NAMESPACE))
    other = asyncio.create_task(client.get(CONFIG_MAPS, "a", **NAMESPACE))
    await asyncio.wait_for(came.wait(), PATIENCE)
    fence.close()
    with pytest.raises(LeaseLost):
        await asyncio.wait_for(writing, PATIENCE)
    await asyncio.wait_for(went.wait(), PATIENCE)
    assert not other.done(), "what is not of this term goes on"
    other.cancel()
    await asyncio.wait({other})


async def test_a_fence_that_is_closed_again_while_a_write_ends() -> None:
    """The end of a term closes it twice, and a write that was cut may need a moment to end."""
    fence, ended = Fence(lambda: True), asyncio.Event()

    async def write() -> None:
        async with fence.passing():
            try:
                await asyncio.sleep(30)
            finally:
                await ended.wait()

    writing = asyncio.create_task(write())
    await asyncio.sleep(0)
    fence.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    fence.close()
    ended.set()
    with pytest.raises(LeaseLost):
        await asyncio.wait_for(writing, PATIENCE)


async def test_a_write_that_fails_by_itself_says_so(server: ApiServer, client: KubeClient) -> None:
    """Also by a timeout, which is not the fence's."""
    fenced = client.within(Fence(lambda: True))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await fenced.create(CONFIG_MAPS, config_map("b"), **NAMESPACE)

    async def broken(_server: ApiServer, _request: web.Request) -> web.Response:
        return web.json_response(status(500, "InternalError", "etcd"), status=500)

    server.fault = broken
    with pytest.raises(ApiError, match="etcd"):
        await fenced.create(CONFIG_MAPS, config_map("b"), **NAMESPACE)


async def test_each_term_has_a_fence_of_its_own(server: ApiServer, client: KubeClient) -> None:
    """What a former term left behind writes nothing in the next one."""
    terms: list[KubeClient] = []
    elector = LeaderElector(client, namespace="berth", name="berth", identity="one", timing=FAST, clock=simulated)

    async def work() -> None:
        terms.append(client.within(elector.fence))
        await asyncio.sleep(60)

    with pytest.raises(LeaseLost):
        elector.fence.check()
    async with running(elector.run(work)):
        await eventually(lambda: len(terms) == 1)
        await terms[0].create(CONFIG_MAPS, config_map("a"), **NAMESPACE)
        stolen = server.objects["leases", "berth", "berth"]
        server.put({**stolen, "spec": {**stolen["spec"], "holderIdentity": "thief"}}, plural="leases")
        await eventually(lambda: len(terms) == 2)
        with pytest.raises(LeaseLost):
            await terms[0].create(CONFIG_MAPS, config_map("b"), **NAMESPACE)
        await terms[1].create(CONFIG_MAPS, config_map("b"), **NAMESPACE)
    with pytest.raises(LeaseLost):
        await terms[1].create(CONFIG_MAPS, config_map("c"), **NAMESPACE)


async def test_the_fence_shuts_when_the_deadline_passes_though_nobody_noticed(
    server: ApiServer, client: KubeClient
) -> None:
    """A process that was frozen: the elector has not run yet, its work has."""
    now = [100.0]
    elector = LeaderElector(
        client, namespace="berth", name="berth", identity="one", timing=LeaseTiming(), clock=lambda: now[0]
    )
    async with running(elector.run(lambda: asyncio.sleep(60))):
        await eventually(lambda: elector.leading)
        elector.fence.check()
        now[0] += 10.0
        with pytest.raises(LeaseLost):
            elector.fence.check()
        assert elector.leading
        now[0] -= 10.0


async def test_while_work_drains_after_a_stop_it_may_still_write(server: ApiServer, client: KubeClient) -> None:
    """The Lease is ours until it is released, which is after the work has ended."""
    elector = LeaderElector(client, namespace="berth", name="berth", identity="one", timing=FAST, clock=simulated)

    async def work() -> None:
        fenced = client.within(elector.fence)
        try:
            await asyncio.sleep(60)
        finally:
            await fenced.create(CONFIG_MAPS, config_map("last"), **NAMESPACE)

    async with running(elector.run(work)):
        await eventually(lambda: elector.leading)
    assert ("configmaps", "default", "last") in server.objects
    assert server.objects["leases", "berth", "berth"]["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("moment", ["standing by", "just deposed", "taken over unseen", "taken over while it wrote"])
async def test_a_lease_that_is_deleted_stays_with_whom_it_was_seen(
    server: ApiServer, client: KubeClient, moment: str
) -> None:
    """Its holder goes on until it looks again; a rival that made it anew at once would work beside it."""
    spec = {"holderIdentity": "holder", "leaseDurationSeconds": 1, "renewTime": "2001-01-01T00:00:00.000000Z"}
    held = {"metadata": {"name": "berth", "namespace": "berth"}, "spec": spec}
    ahead, lease = 0.0, ("leases", "berth", "berth")
    rival = LeaderElector(
        client, namespace="berth", name="berth", identity="rival", timing=FAST, clock=lambda: simulated() + ahead
    )

    def deleted_before(verb: str) -> Callable[..., Any]:
        async def delete(_server: ApiServer, request: web.Request) -> None:
            if request.method == verb:
                server.fault = None
                server.remove("berth", namespace="berth", plural="leases")

        return delete

    async def two_looks() -> None:
        before = len(server.requests)
        await eventually(lambda: len(server.requests) >= before + 2)

    if moment == "taken over while it wrote":
        # Nobody held it when the rival looked; before its own write came, somebody took it, and it was deleted.
        server.put({**held, "spec": {**spec, "holderIdentity": ""}}, plural="leases")
        server.fault = deleted_before("PUT")
    elif moment != "just deposed":
        server.put(held, plural="leases")
    async with running(rival.run(lambda: asyncio.sleep(60))):
        if moment == "just deposed":
            await eventually(lambda: rival.leading)
            server.put(held, plural="leases")
            server.fault, before = deleted_before("GET"), len(server.requests)
            await eventually(lambda: server.fault is None)
            # After a conflict it is not known whose it is now: that is read at once.
            assert [request.split()[0] for request in server.requests[before:]].index("GET") <= 1
        elif moment == "taken over while it wrote":
            await eventually(lambda: server.fault is None)
        else:
            await two_looks()
            if moment == "taken over unseen":
                ahead = 5.0  # it has run out since, and somebody else was quicker
            server.remove("berth", namespace="berth", plural="leases")
        await two_looks()
        assert lease not in server.objects
        await eventually(lambda: lease in server.objects and rival.leading)
    assert (await client.get(LEASES, "berth", namespace="berth"))["spec"]["leaseDurationSeconds"] == 1


async def test_a_reset_leaves_nothing_for_the_kernel_to_send() -> None:
    """The other end sees no orderly end, behind which the rest of a request could still come."""
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        try:
            seen.set_result(f"{len(await reader.read())} bytes")
        except ConnectionResetError:
            seen.set_result("reset")
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"head")
        await writer.drain()
        reset(writer.transport)
        assert await asyncio.wait_for(seen, PATIENCE) == "reset"


async def test_who_was_frozen_does_not_take_a_lease_that_went_meanwhile(server: ApiServer, client: KubeClient) -> None:
    """It knows its own term only, which is over; whoever led since then may still do so."""
    now = [100.0]
    elector = LeaderElector(client, namespace="berth", name="berth", identity="one", timing=FAST, clock=lambda: now[0])
    async with running(elector.run(lambda: asyncio.sleep(60))):
        await eventually(lambda: elector.leading)
        server.remove("berth", namespace="berth", plural="leases")
        now[0] += 20.0
        await eventually(lambda: not elector.leading)
        asked = len(server.requests)
        await eventually(lambda: len(server.requests) > asked + 3)
        assert ("leases", "berth", "berth") not in server.objects
        now[0] += 2.0
        await eventually(lambda: elector.leading)
