"""Controllers with a Lease between them: whatever happens to the one that holds it, never do two write.

The processes are real, the work never ends, and each request to write is compared with the Lease as it was stored
when the API server took it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from app.errors import ApiError
from app.kube.resources import LEASES
from app.registry import CONTROLLER_LEASE as LEASE
from app.workloads.model import SYSTEM_NAMESPACE, TENANT_RULES, WORKLOADS
from tests.integration.resilience.quick import FREEZE, QUICK
from tests.integration.resilience.stage import (
    NAMESPACE,
    PATIENCE,
    RULES,
    Replica,
    Stage,
    busy,
    fill,
    rule,
    staged,
    workload,
)
from tests.support.waiting import eventually


@pytest_asyncio.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with staged(tmp_path, monkeypatch) as made:
        yield made


async def test_whatever_happens_to_the_leader_two_never_write(stage: Stage) -> None:
    """Killed, frozen, cut off, behind a line that swallows everything: each time the other takes over."""
    for _ in range(2):
        await stage.controller()
    await stage.ready()
    await fill(stage)
    async with busy(stage):
        await stage.writing(await stage.leader(), more=40)
        for fate in (_killed, _frozen, _cut_off, _swallowed):
            await fate(stage)
    await stage.settled()
    stage.ledger.prove()
    _leases_ran_out_first(stage, least=4)
    assert len(stage.ledger.requests) > 200


async def test_clocks_that_disagree_by_hours_change_nothing(stage: Stage) -> None:
    """Three replicas: one is frozen, one has its Lease deleted, and of one the last requests come too late."""
    for skew in (0.0, 7200.0, -7200.0):
        await stage.controller(skew=skew)
    await stage.ready()
    await fill(stage)
    async with busy(stage):
        await _frozen(stage)
        await stage.leader()
        await stage.side.client.delete(LEASES, LEASE, namespace=SYSTEM_NAMESPACE)
        await eventually(lambda: stage.ledger.holder, seconds=PATIENCE)
        await stage.writing(await stage.leader(), more=20)
        strays = [request for request in stage.ledger.strays() if request.holder]
        assert strays == [], "whoever saw it held leaves it to the holder to make it anew"
        await _late(stage)
    await stage.settled()


async def _killed(stage: Stage) -> None:
    """And replaced, as a Deployment does it."""
    leader = await stage.leader()
    await stage.writing(leader)
    leader.process.send(signal.SIGKILL)
    await stage.leader(but=leader)
    await stage.controller()
    await stage.ready()


async def _frozen(stage: Stage) -> None:
    """In the middle of a workload's companions, over a slow line; it wakes when another has done all of them."""
    leader = await stage.leader()
    leader.slow(0.05)
    mine = f"frozen{stage.number}"
    wanted = {f"r{n}-{mine}" for n in range(RULES)}
    await stage.side.client.create(WORKLOADS, workload(mine), namespace=NAMESPACE)
    await eventually(lambda: stage.companions() & wanted or stage.ledger.holder != leader.user, seconds=PATIENCE)
    leader.process.send(FREEZE)
    await stage.leader(but=leader)
    await eventually(lambda: stage.companions() >= wanted, seconds=PATIENCE)
    await _comes_back(stage, leader, lambda: leader.process.send(signal.SIGCONT))


async def _cut_off(stage: Stage) -> None:
    leader = await stage.leader()
    await stage.writing(leader)
    leader.line.refusing = True
    leader.line.cut()
    await stage.leader(but=leader)
    await _comes_back(stage, leader, leader.line.resume)


async def _swallowed(stage: Stage) -> None:
    leader = await stage.leader()
    await stage.writing(leader)
    leader.line.stall()
    await stage.leader(but=leader)
    await _comes_back(stage, leader, leader.line.resume)


async def _late(stage: Stage) -> None:
    """What nobody can call back: the server takes the leader's last requests when another leads already.

    That is harmless: nothing is done twice or undone for good, as `settled` finds.
    """
    leader = await stage.leader()
    arrived = stage.ledger.held[leader.user] = asyncio.Event()
    for number in range(RULES):
        with contextlib.suppress(ApiError):
            body = {"spec": rule("nginx:late")}
            name = f"r{number}"
            await stage.side.client.patch(TENANT_RULES, name, body, patch_type="merge", namespace=NAMESPACE)
    await stage.leader(but=leader)
    seen = len(stage.ledger.requests)
    leader.line.cut()
    arrived.set()
    del stage.ledger.held[leader.user]
    await eventually(lambda: any(request.user == leader.user for request in stage.ledger.requests[seen:]))
    await eventually(leader.process.ready, seconds=PATIENCE)


async def _comes_back(stage: Stage, former: Replica, heal: Callable[[], None]) -> None:
    """It finds out that it leads no more, stands by, and is ready to take over."""
    heal()
    await former.quick()
    await eventually(lambda: former.said("not leading") >= former.said("leading"), seconds=PATIENCE)
    await eventually(former.process.ready, seconds=PATIENCE)
    await stage.writing(await stage.leader(), more=20)


def _leases_ran_out_first(stage: Stage, *, least: int) -> None:
    """By the own times of the Lease, nobody took it before; each take-over has been waited for."""
    silences = [(after.acquired - before.renewed).total_seconds() for before, after in stage.ledger.takeovers()]
    assert len(silences) >= least
    for silence in silences:
        assert QUICK.duration <= silence
