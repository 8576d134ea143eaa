"""Leader election against a real HTTP server, on a simulated clock: one works, and stops before another starts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from app.kube import lease as module
from app.kube.client import KubeClient
from app.kube.lease import LeaderElector, LeaseTiming
from app.kube.transport import connect
from tests.support.fake_apiserver import ApiServer, status, write_kubeconfig
from tests.support.running import running
from tests.support.waiting import eventually

pytestmark = pytest.mark.simulated

FAST = LeaseTiming(duration=1.0, renew_deadline=0.6, retry_period=0.08)


def now() -> float:
    return asyncio.get_running_loop().time()


class Work:
    """Notes when anybody works, and fails the test if two do at once."""

    def __init__(self) -> None:
        self.active: set[str] = set()
        self.events: list[tuple[str, str, float]] = []

    def by(self, who: str, *, cleanup: float = 0.0) -> object:
        async def work() -> None:
            assert not self.active
            self.active.add(who)
            self.events.append(("start", who, now()))
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(cleanup)
                self.active.discard(who)
                self.events.append(("stop", who, now()))

        return work

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(what, who) for what, who, _ in self.events]


def elector(client: KubeClient, identity: str, **more: object) -> LeaderElector:
    return LeaderElector(client, namespace="berth", name="berth", identity=identity, timing=FAST, clock=now, **more)


def lease(server: ApiServer) -> dict[str, object]:
    return server.objects["leases", "berth", "berth"]["spec"]


async def test_takes_renews_and_releases(server: ApiServer, client: KubeClient) -> None:
    changes: list[bool] = []
    work, one = Work(), elector(client, "one", on_change=changes.append)
    async with running(one.run(work.by("one"))):
        await eventually(lambda: one.leading and bool(work.active))
        first = lease(server)["renewTime"]
        await eventually(lambda: lease(server)["renewTime"] != first)
        assert lease(server)["holderIdentity"] == "one"
        assert lease(server)["leaseDurationSeconds"] == 1
    assert not one.leading
    assert lease(server)["holderIdentity"] == ""
    assert changes == [True, False]
    assert work.told == [("start", "one"), ("stop", "one")]


async def test_successor_takes_a_released_lease_at_once(server: ApiServer, client: KubeClient) -> None:
    work = Work()
    two = elector(client, "two")
    async with running(elector(client, "one").run(work.by("one"))):
        await eventually(lambda: bool(work.active))
        successor = asyncio.create_task(two.run(work.by("two")))
        await asyncio.sleep(0.2)
        assert not two.leading
    released = now()
    await eventually(lambda: two.leading)
    assert now() - released < FAST.duration
    assert lease(server)["leaseTransitions"] == 1
    successor.cancel()
    await asyncio.wait([successor])
    assert work.told == [("start", "one"), ("stop", "one"), ("start", "two"), ("stop", "two")]


async def test_cut_off_leader_stops_before_a_rival_may_start(server: ApiServer, tmp_path: Path) -> None:
    """Its connections are refused; the rival's are not. Work takes a while to stop, and has stopped in time."""
    gate = ApiServer()
    await gate.start()
    gate.objects = server.objects
    work = Work()
    near = str(write_kubeconfig(tmp_path / "near", gate.url))
    far = str(write_kubeconfig(tmp_path / "far", server.url))
    async with await connect(kubeconfig=near) as one_client, await connect(kubeconfig=far) as two_client:
        one, two = elector(one_client, "one"), elector(two_client, "two")
        async with running(one.run(work.by("one", cleanup=0.1))):
            await eventually(lambda: one.leading)
            async with running(two.run(work.by("two"))):
                await asyncio.sleep(0.2)
                await gate.stop()
                await eventually(lambda: two.leading)
                assert not one.leading
                assert work.told == [("start", "one"), ("stop", "one"), ("start", "two")]
                await gate.start()
            await eventually(lambda: one.leading)
    await gate.stop()


async def test_short_outage_costs_nothing(server: ApiServer, client: KubeClient) -> None:
    work, one = Work(), elector(client, "one")
    async with running(one.run(work.by("one"))):
        await eventually(lambda: one.leading)
        await server.stop()
        await asyncio.sleep(0.25)
        await server.start()
        before = lease(server)["renewTime"]
        await eventually(lambda: lease(server)["renewTime"] != before)
        assert one.leading
        assert work.told == [("start", "one")]


async def test_a_record_that_claims_a_day_is_not_believed(
    server: ApiServer, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written by hand, for instance: a ghost must not keep everybody from leading until tomorrow."""
    monkeypatch.setattr(module, "LONGEST", 1)
    spec = {"holderIdentity": "ghost", "leaseDurationSeconds": 86_400, "renewTime": None}
    server.put({"metadata": {"name": "berth", "namespace": "berth"}, "spec": spec}, plural="leases")
    work, one = Work(), elector(client, "one")
    async with running(one.run(work.by("one"))):
        await eventually(lambda: one.leading)
    assert work.told[0] == ("start", "one")


@pytest.mark.parametrize("kind", ["hangs", "fails"])
async def test_leads_again_after_a_long_outage(server: ApiServer, client: KubeClient, kind: str) -> None:
    """A hanging server must not hold the leader in its request past the deadline."""

    async def fault(server: ApiServer, request: web.Request) -> web.Response:
        if kind == "hangs":
            await asyncio.sleep(30)
        return web.json_response(status(500, "InternalError", "etcd"), status=500)

    work, one = Work(), elector(client, "one")
    async with running(one.run(work.by("one"))):
        await eventually(lambda: one.leading)
        began = now()
        server.fault = fault
        await eventually(lambda: not work.active)
        assert now() - began < FAST.duration
        server.fault = None
        await eventually(lambda: bool(work.active))
    assert work.told == [("start", "one"), ("stop", "one")] * 2


async def test_steps_down_when_somebody_took_the_lease(server: ApiServer, client: KubeClient) -> None:
    work, one = Work(), elector(client, "one")
    async with running(one.run(work.by("one"))):
        await eventually(lambda: one.leading)
        stolen = server.objects["leases", "berth", "berth"]
        server.put({**stolen, "spec": {**stolen["spec"], "holderIdentity": "thief"}}, plural="leases")
        await eventually(lambda: not one.leading)
        assert not work.active
        await eventually(lambda: one.leading)


async def test_survives_deletion_of_its_lease(server: ApiServer, client: KubeClient) -> None:
    work, one = Work(), elector(client, "one")
    async with running(one.run(work.by("one"))):
        await eventually(lambda: one.leading)
        server.remove("berth", namespace="berth", plural="leases")
        await eventually(lambda: ("leases", "berth", "berth") in server.objects)
        assert one.leading


async def test_two_electors_never_overlap(server: ApiServer, client: KubeClient) -> None:
    """Leadership goes to and fro; `Work` asserts that nobody works beside another."""
    work = Work()
    tasks = {who: asyncio.create_task(elector(client, who).run(work.by(who))) for who in ("one", "two")}
    for _ in range(3):
        await eventually(lambda: bool(work.active))
        (leader,) = work.active
        tasks[leader].cancel()
        await asyncio.wait([tasks[leader]])
        await eventually(lambda leader=leader: work.active == ({"one", "two"} - {leader}))
        tasks[leader] = asyncio.create_task(elector(client, leader).run(work.by(leader)))
    for task in tasks.values():
        task.cancel()
    await asyncio.wait(tasks.values())
    assert all(task.cancelled() for task in tasks.values())
    assert [what for what, _ in work.told] == ["start", "stop"] * 4


async def test_lease_of_a_crashed_leader_is_taken_after_its_duration(server: ApiServer, client: KubeClient) -> None:
    """Nobody renews and nobody released: whole seconds of the record count, by the rival's own clock."""
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": "2001-01-01T00:00:00.000000Z"}
    server.put({"metadata": {"name": "berth", "namespace": "berth"}, "spec": spec}, plural="leases")
    began = now()
    one = elector(client, "one")
    async with running(one.run(Work().by("one"))):
        await eventually(lambda: one.leading)
        assert now() - began > 1
        assert lease(server)["leaseTransitions"] == 1


@pytest.mark.parametrize("fault", ["", "bug"])
async def test_work_that_ends_ends_the_run_and_releases(server: ApiServer, client: KubeClient, fault: str) -> None:
    async def work() -> None:
        if fault:
            raise RuntimeError(fault)

    if fault:
        with pytest.raises(RuntimeError, match="bug"):
            await elector(client, "one").run(work)
    else:
        await elector(client, "one").run(work)
    assert lease(server)["holderIdentity"] == ""


async def test_second_cancellation_still_awaits_the_work(server: ApiServer, client: KubeClient) -> None:
    work, one = Work(), elector(client, "one")
    task = asyncio.create_task(one.run(work.by("one", cleanup=0.1)))
    await eventually(lambda: bool(work.active))
    task.cancel()
    await asyncio.sleep(0.02)
    assert work.active
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not work.active


def test_defaults_and_their_order() -> None:
    assert (LeaseTiming().duration, LeaseTiming().renew_deadline, LeaseTiming().retry_period) == (15, 10, 2)
    with pytest.raises(ValueError, match="retry_period"):
        LeaseTiming(duration=5, renew_deadline=5)


async def test_says_why_it_cannot_reach_the_lease(server: ApiServer, client: KubeClient) -> None:
    """Whoever stands by has to be able to take over; a rival that holds the Lease is no problem."""

    async def forbid(_server: ApiServer, _request: web.Request) -> web.Response:
        return web.json_response(status(403, "Forbidden", "no leases for you"), status=403)

    work, one, two = Work(), elector(client, "one"), elector(client, "two")
    async with running(one.run(work.by("one"))):
        await eventually(lambda: one.leading)
        assert two.problem, "nobody has asked yet"
        async with running(two.run(work.by("two"))):
            await eventually(lambda: two.problem == "")
            server.fault = forbid
            await eventually(lambda: "no leases for you" in two.problem)
            server.fault = None
            await eventually(lambda: two.problem == "")
