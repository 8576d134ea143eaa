"""Series come and go with what they are about: tenants, caches, queues, terms of leadership."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from prometheus_client import REGISTRY

from app.devtools.sandbox.server import Cluster
from app.kube import metrics
from app.kube.controller import Controller, Done
from app.kube.reflector import Reflector, Scope
from app.kube.resources import NETWORK_ATTACHMENTS
from app.kube.store import Store
from app.kube.transport import connect
from app.metrics import publish
from app.tenancy.gateway import metrics as gateway
from app.workloads.model import TENANTS
from tests.support.processes import Berth
from tests.support.staging import Stage, staged
from tests.support.waiting import PATIENCE, eventually


def value(name: str, **labels: str) -> float | None:
    publish()
    return REGISTRY.get_sample_value(name, labels)


def tenants_of(series: set[tuple[str, tuple[tuple[str, str], ...]]]) -> set[str]:
    return {tenant for _, labels in series if (tenant := dict(labels).get("tenant"))}


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as found:
        yield found


async def test_a_tenants_series_come_and_go_with_its_object(stage: Stage) -> None:
    process, _ = await stage.gateway()
    before = await process.series()
    assert tenants_of(before) == {"tenant1", gateway.OTHERS}
    spec = {"identity": {"names": ["two.example"]}}
    await stage.client.create(TENANTS, TENANTS.body({"name": "two"}, spec=spec))
    await eventually(lambda: _has_tenant(process, "two"))
    mine = {(name, dict(labels)["tenant"]) for name, labels in await process.series() if "tenant" in dict(labels)}
    assert {name for name, tenant in mine if tenant == "two"} == {name for name, tenant in mine if tenant == "tenant1"}
    await stage.client.delete(TENANTS, "two")
    await eventually(lambda: _lacks_tenant(process, "two"))
    assert await process.series() == before


async def _has_tenant(process: Berth, name: str) -> bool:
    return name in tenants_of(await process.series())


async def _lacks_tenant(process: Berth, name: str) -> bool:
    return name not in tenants_of(await process.series())


def test_what_a_tenant_that_is_gone_had_under_way_is_counted_with_the_others() -> None:
    """A stream that ends after its tenant must not bring the tenant's series back."""
    gateway.create_series({}, ())
    told = gateway.GatewayMetrics()
    told.tenant_came("leaving")
    told.streams("leaving", 2)
    assert value("gateway_streams", tenant="leaving") == 2
    told.tenant_gone("leaving")
    assert value("gateway_streams", tenant=gateway.OTHERS) == 2
    told.throttled("leaving", "rate")
    told.event("leaving", "update")
    told.event_dropped("leaving", "size")
    told.written("leaving", "create", "done")
    told.streams("leaving", 0)
    assert value("gateway_streams", tenant=gateway.OTHERS) == 0
    names = ("throttled", "streams", "workload_events", "workload_events_dropped", "workload_writes")
    found = {sample.labels["tenant"] for family in REGISTRY.collect() for sample in family.samples
             if family.name in {f"gateway_{name}" for name in names}}  # fmt: skip
    assert "leaving" not in found


def test_a_tenant_that_comes_back_begins_at_zero() -> None:
    told = gateway.GatewayMetrics()
    told.tenant_came("back")
    told.event("back", "update")
    told.tenant_gone("back")
    told.tenant_came("back")
    assert value("gateway_workload_events_total", tenant="back", kind="update") == 0
    told.tenant_gone("back")


def test_callers_that_are_no_tenants_share_one_name() -> None:
    """Whoever has many certificates must not fill our memory."""
    gateway.create_series({}, ())
    told = gateway.GatewayMetrics()
    before = value("gateway_throttled_total", tenant=gateway.OTHERS, limit="refused") or 0
    for number in range(100):
        told.throttled(f"certificate stranger-{number}", "refused")
        told.streams(f"certificate stranger-{number}", 1)
    assert value("gateway_throttled_total", tenant=gateway.OTHERS, limit="refused") == before + 100
    assert value("gateway_streams", tenant=gateway.OTHERS) == 100
    (family,) = gateway.STREAMS.collect()
    assert not [sample for sample in family.samples if sample.labels["tenant"].startswith("certificate")]
    for number in range(100):
        told.streams(f"certificate stranger-{number}", 0)


def test_a_cache_ages_from_the_moment_it_is_kept_and_has_no_age_afterwards() -> None:
    """One whose API server was never heard of must look stale, and one that nobody keeps must not."""
    metrics.create_watch_series("Aging")
    cache = Store[str](str)
    assert value("cache_age_seconds", kind="Aging") is None
    with metrics.caches_kept([("Aging", cache)]):
        first = value("cache_age_seconds", kind="Aging")
        assert first is not None
        assert (value("cache_age_seconds", kind="Aging") or 0) > first
        before = time.monotonic()
        cache.touch()
        age = value("cache_age_seconds", kind="Aging")
        assert age is not None
        assert age <= time.monotonic() - before
    assert value("cache_age_seconds", kind="Aging") is None
    assert value("cache_objects", kind="Aging") == 0


def test_of_several_caches_of_one_kind_the_oldest_counts_and_what_all_hold() -> None:
    now = [100.0]
    young, old = Store[str](str, clock=lambda: now[0]), Store[str](str, clock=lambda: now[0])
    for number, cache in enumerate((old, young)):
        cache.touch()
        cache.upsert({"metadata": {"name": f"a{number}"}})
    with metrics.caches_kept([("Twice", young)]):
        with metrics.caches_kept([("Twice", old)]):
            now[0] = 150.0
            young.touch()
            assert value("cache_age_seconds", kind="Twice") == 50
            assert value("cache_objects", kind="Twice") == 2
        assert value("cache_age_seconds", kind="Twice") == 0
        assert value("cache_objects", kind="Twice") == 1


def test_a_doubt_is_told_until_the_cache_is_loaded_again() -> None:
    metrics.create_watch_series("Doubtful")
    sound, doubtful = Store[str](str), Store[str](str)
    assert value("cache_in_doubt", kind="Doubtful") == 0
    with metrics.caches_kept([("Doubtful", doubtful)]), metrics.caches_kept([("Doubtful", sound)]):
        doubtful.mark_synced()
        sound.mark_synced()
        assert value("cache_in_doubt", kind="Doubtful") == 0
        doubtful.suspect()
        assert value("cache_in_doubt", kind="Doubtful") == 1
        doubtful.mark_synced()
        assert value("cache_in_doubt", kind="Doubtful") == 0
        doubtful.suspect()
    assert value("cache_in_doubt", kind="Doubtful") == 0


async def test_a_cluster_that_does_not_know_the_kind_makes_no_cache_stale(tmp_path: Path) -> None:
    """Without Multus there are no attachments: an alarm about them would never end."""
    async with Cluster("bare") as cluster:
        (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
        async with await connect(kubeconfig=str(tmp_path / "kubeconfig"), deadline=PATIENCE) as client:
            cache: Store[dict[str, Any]] = Store(lambda obj: obj)
            reflector = Reflector(client, Scope(NETWORK_ATTACHMENTS), cache)
            running = asyncio.create_task(reflector.run())
            await eventually(lambda: reflector.missing)
            assert cache.age is not None
            assert not cache.synced
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_keys_that_wait_are_counted_though_no_worker_ever_comes_back() -> None:
    """A queue whose workers all hang is the one that must be seen to grow."""
    hanging = asyncio.Event()

    async def reconcile(_: str) -> Done:
        await hanging.wait()
        return Done()

    metrics.create_controller_series("hanging")
    controller = Controller("hanging", reconcile, workers=1, turn=None)
    running = asyncio.create_task(controller.run())
    for key in ("a", "b", "c"):
        controller.enqueue(key)
    await eventually(lambda: value("queue_depth", controller="hanging") == 2)
    controller.enqueue("d")
    assert value("queue_depth", controller="hanging") == 3
    hanging.set()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert value("queue_depth", controller="hanging") == 0


async def test_a_replica_that_stands_by_leads_nothing_and_has_no_old_caches_until_it_takes_over(stage: Stage) -> None:
    first = await stage.berth("controller")
    await eventually(lambda: first.event("leading"))
    second = await stage.berth("controller")
    await second.until_ready()
    found = await second.values()
    assert found["leader", ""] == 0
    assert [name for name, _ in found if name == "cache_age_seconds"] == []
    assert found["cache_objects", "Tenant"] == 0
    assert await first.end() == 0
    await eventually(lambda: second.event("leading"))
    await eventually(lambda: _knows_a_tenant(second))
    assert (await second.values())["leader", ""] == 1
    assert (await second.values())["cache_age_seconds", "Tenant"] < 60


async def _knows_a_tenant(process: Berth) -> bool:
    return (await process.values())["cache_objects", "Tenant"] == 1


async def test_who_elects_no_leader_has_no_series_of_it(stage: Stage) -> None:
    """A zero would say that nobody works."""
    controller = await stage.berth("controller", "--no-leader-elect")
    await controller.until_ready()
    assert [name for name, _ in await controller.series() if name == "leader"] == []
