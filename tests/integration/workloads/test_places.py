"""Companions of the cloud admin's rules, outside of the tenants' namespaces: how many one tenant's workloads may cause."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

import pytest

from app.errors import ApiError
from app.kube.credentials import load_credentials
from app.kube.resources import PODS, Resource
from app.kube.transport import Session
from app.workloads.controller.storing import DEFAULT_BOUNDS
from app.workloads.model import ADMIN_RULES, WORKLOADS
from tests.support.waiting import eventually
from tests.support.workloads import SYSTEM, T1, T2, CountingClient, Infra, companions_kit

PLACES = {**DEFAULT_BOUNDS, "companions/Any": 2, "companions/SameNode": 1}


def of(infra: Infra, tenant: str) -> set[str]:
    """The uids of the tenant's companions in the admin's namespace."""
    prefix = f"a-tenant-{tenant}-"
    return {pod["metadata"]["uid"] for name, pod in infra.pods(SYSTEM).items() if name.startswith(prefix)}


def entry(infra: Infra, id_: str) -> dict[str, Any]:
    rules = infra.status(WORKLOADS, f"workload-{id_}").get("rules") or {}
    return rules["admin"][0]["status"] if rules.get("admin") else {}


def refused(infra: Infra, count: int) -> list[str]:
    """Which of the first workloads of tenant1 have no place."""
    return [f"u{n}" for n in range(count) if entry(infra, f"u{n}").get("reason") == "QuotaExceeded"]


async def many(infra: Infra, count: int, namespace: str = T1, **more: Any) -> None:
    for number in range(count):
        await infra.workload(f"{'u' if namespace == T1 else 'v'}{number}", namespace=namespace, **more)


async def test_one_tenant_has_as_many_as_its_bound_and_takes_none_of_another(infra: Infra) -> None:
    await infra.admin_rule("a")
    await infra.rule("own")
    await many(infra, 6)
    await many(infra, 2, T2)
    async with infra.controller(quota=PLACES) as client:
        await eventually(lambda: len(refused(infra, 6)) == 4)
        await eventually(lambda: len(of(infra, "tenant2")) == 2)
        assert len(of(infra, "tenant1")) == 2
        await eventually(lambda: len(infra.pods(T1)) == 6)
        text = "tenant tenant1 has 2 of 2 companions in universe by rules with dpuSelectionPolicy Any"
        assert entry(infra, refused(infra, 6)[0])["message"].startswith(text)
        await eventually(lambda: text in infra.status(ADMIN_RULES, "a").get("message", ""))
        # Nothing was asked of the API server for those that have no place.
        assert client.counts["create pods"] == 10


async def test_those_that_exist_stay_and_each_that_goes_lets_another_in(infra: Infra) -> None:
    await infra.admin_rule("a")
    await many(infra, 5)
    async with infra.controller(quota=PLACES, resync=0.1):
        await eventually(lambda: len(refused(infra, 5)) == 3)
        kept = of(infra, "tenant1")
        for number in range(5, 8):
            await infra.workload(f"u{number}")
        await eventually(lambda: len(refused(infra, 8)) == 6)
        assert of(infra, "tenant1") == kept
        (first, second) = sorted({f"u{n}" for n in range(8)} - set(refused(infra, 8)))
        await infra.remove(WORKLOADS, f"workload-{first}")
        await eventually(lambda: len(of(infra, "tenant1")) == 2 and of(infra, "tenant1") != kept)
        assert infra.uid(f"a-tenant-tenant1-{second}") in kept
        await eventually(lambda: len(refused(infra, 8)) == 5)


@pytest.mark.parametrize("gone", ["workload", "pod"])
async def test_a_place_that_is_free_is_taken_without_a_resync(infra: Infra, gone: str) -> None:
    """Somebody deletes the Pod, or its workload ends: there are as many as before soon after."""
    await infra.admin_rule("a")
    await many(infra, 4)
    async with infra.controller(quota=PLACES, resync=None):
        await eventually(lambda: len(refused(infra, 4)) == 2)
        before = of(infra, "tenant1")
        first = next(f"u{n}" for n in range(4) if f"u{n}" not in refused(infra, 4))
        if gone == "workload":
            await infra.remove(WORKLOADS, f"workload-{first}")
        else:
            await infra.admin.delete(PODS, f"a-tenant-tenant1-{first}", namespace=SYSTEM)
        await eventually(lambda: len(of(infra, "tenant1") & before) == 1 and len(of(infra, "tenant1")) == 2)


async def test_a_companion_that_is_made_anew_keeps_its_place(infra: Infra) -> None:
    await infra.admin_rule("a")
    await many(infra, 5)
    async with infra.controller(quota=PLACES, resync=0.1):
        await eventually(lambda: len(refused(infra, 5)) == 3)
        names = set(infra.pods(SYSTEM))
        for name in names:
            await infra.bind(name, SYSTEM)
        before = of(infra, "tenant1")
        await infra.admin_rule("a", image="nginx:2")
        await eventually(lambda: all(pod["metadata"].get("deletionTimestamp") for pod in infra.pods(SYSTEM).values()))
        # While they end they have their places, and nothing comes in beside them.
        assert set(infra.pods(SYSTEM)) == names
        for name in names:
            await infra.confirm(name, SYSTEM)
        await eventually(lambda: len(of(infra, "tenant1") - before) == 2)
        assert set(infra.pods(SYSTEM)) == names


async def test_each_policy_has_its_own_bound(infra: Infra) -> None:
    await infra.admin_rule("a", policy="SameNode")
    await infra.admin_rule("b")
    await many(infra, 4, node="host-a")
    async with infra.controller(quota=PLACES):
        await eventually(lambda: len(refused(infra, 4)) == 3)
        await eventually(lambda: len(infra.pods(SYSTEM)) == 3)
        assert len(of(infra, "tenant1")) == 1
        assert "1 of 1 companions in universe by rules with dpuSelectionPolicy SameNode" in str(
            [entry(infra, f"u{n}").get("message") for n in range(4)]
        )
        # A rule whose policy changes takes places of the other bound.
        await infra.remove(ADMIN_RULES, "b", SYSTEM)
        await eventually(lambda: len(infra.pods(SYSTEM)) == 1)
        await infra.admin_rule("a")
        await eventually(lambda: len(of(infra, "tenant1")) == 2)
        await eventually(lambda: len(refused(infra, 4)) == 2)


async def test_more_than_the_bound_stay_and_no_other_comes_in(infra: Infra) -> None:
    await infra.admin_rule("a")
    await many(infra, 4)
    async with infra.controller(quota=DEFAULT_BOUNDS):
        await eventually(lambda: len(of(infra, "tenant1")) == 4)
    kept = of(infra, "tenant1")
    await infra.workload("u4")
    async with infra.controller(quota=PLACES):
        await eventually(lambda: refused(infra, 5) == ["u4"])
        assert "has 4 of 2 companions" in entry(infra, "u4")["message"]
        assert of(infra, "tenant1") == kept
        for number in range(2):
            await infra.remove(WORKLOADS, f"workload-u{number}")
        await eventually(lambda: len(of(infra, "tenant1")) == 2)
        await infra.remove(WORKLOADS, "workload-u2")
        await eventually(lambda: len(of(infra, "tenant1") - kept) == 1)


async def test_a_refusal_by_the_api_server_gives_the_place_to_another(infra: Infra) -> None:
    await infra.admin_rule("a")
    uid = (await foreign(infra, "a-tenant-tenant1-u0"))["metadata"]["uid"]
    await infra.workload("u0")
    async with infra.controller(quota=PLACES, resync=None):
        await eventually(lambda: entry(infra, "u0").get("reason") == "NameTaken")
        for number in range(1, 4):
            await infra.workload(f"u{number}")
        await eventually(lambda: len(of(infra, "tenant1") - {uid}) == 2)
        await eventually(lambda: len(refused(infra, 4)) == 1)


async def foreign(infra: Infra, name: str) -> dict[str, Any]:
    body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    return await infra.admin.create(PODS, body, namespace=SYSTEM)


async def test_places_are_counted_by_what_exists_whatever_the_controller_remembers(infra: Infra) -> None:
    """It dies at any point and another begins: there is never one too many, and at the end as many as there may be."""
    await infra.admin_rule("a")
    for number in range(8):
        await infra.workload(f"u{number}")
        client = await infra.client()
        task = asyncio.create_task(companions_kit(client, quota=PLACES).run())
        await eventually(partial(_has_written, client))
        await client.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert len(of(infra, "tenant1")) <= 2
    before = of(infra, "tenant1")
    async with infra.controller(quota=PLACES):
        await eventually(lambda: len(refused(infra, 8)) == 6)
        assert len(of(infra, "tenant1")) == 2
        assert before <= of(infra, "tenant1")


def _has_written(client: CountingClient) -> bool:
    return bool(client.counts["patchstatus workloads"] or client.counts["create pods"])


class Losing(CountingClient):
    """Loses the answer to its next creation."""

    losing = False

    async def create(self, resource: Resource, body: dict[str, Any], **more: Any) -> dict[str, Any]:
        made = await super().create(resource, body, **more)
        if self.losing:
            self.losing = False
            raise ApiError("POST /pods: no answer", status=0)
        return made


async def test_an_answer_that_is_lost_keeps_the_place(infra: Infra) -> None:
    await infra.admin_rule("a")
    await many(infra, 6)
    client = Losing(Session(await load_credentials(kubeconfig=str(infra.kubeconfig))))
    async with infra.controller(client, quota=PLACES):
        await eventually(lambda: len(refused(infra, 6)) == 4)
        for number in range(6):
            client.losing = True
            before = of(infra, "tenant1")
            await infra.admin.delete(PODS, list(infra.pods(SYSTEM))[number % 2], namespace=SYSTEM)
            await eventually(lambda before=before: len(of(infra, "tenant1") - before) == 1)
            await eventually(lambda: len(refused(infra, 6)) == 4)
            assert len(of(infra, "tenant1")) == 2
    await client.close()
