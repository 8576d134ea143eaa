"""What the companions of one tenant cost to store, and to work out: no tenant does harm to another."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.kube.rate import Rate
from app.kube.resources import RESOURCE_QUOTAS
from app.wire import encode_json
from app.workloads.companions.marks import companion_of
from app.workloads.controller.storing import ALL, PENDING, Storing
from app.workloads.model import WORKLOADS, Problem, Waiting
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import JSON, KIB, SYSTEM, T1, T2, Infra, entries, pod, rule

KEY = (T1, "two")
POD = rule("r")["spec"]["template"]


async def test_bytes_of_companions_are_bounded_and_another_tenant_has_its_own(infra: Infra) -> None:
    """They grow by what is injected, however small the rule is."""
    inject = {f"a{number}": "@" for number in range(10)}
    await infra.rule("r", inject=inject)
    await infra.rule("r", namespace=T2, inject=inject)
    for number in range(6):
        await infra.workload(f"u{number}", large="x" * 2000)
    await infra.workload("v", namespace=T2, large="x" * 2000)
    async with infra.controller(quota={ALL: 80 * KIB}):
        await eventually(lambda: sum(one.get("reason") == "QuotaExceeded" for one in entries(infra, 6)) == 3)
        await eventually(lambda: len(infra.pods(T2)) == 1)
        assert len(infra.pods(T1)) == 3
        message = next(one["message"] for one in entries(infra, 6) if one["result"] == "error")
        assert message.startswith("the companions of tenant tenant1 have ")
        assert message.endswith("can raise --tenant-quota companions/bytes")
        # One that goes makes room for another.
        made = next(number for number in range(6) if f"r-u{number}" in infra.pods(T1))
        await infra.remove(WORKLOADS, f"workload-u{made}")
        await eventually(lambda: len(infra.pods(T1)) == 3 and f"r-u{made}" not in infra.pods(T1))
    async with infra.controller(quota={ALL: 80 * KIB}):  # which has made none of them
        await eventually(lambda: sum(one.get("reason") == "QuotaExceeded" for one in entries(infra, 6)) == 2)
        assert len(infra.pods(T1)) == 3


async def test_companions_of_the_admins_rules_count_for_the_tenant(infra: Infra) -> None:
    await infra.admin_rule("a", inject={f"a{number}": "@" for number in range(10)})
    for number in range(4):
        await infra.workload(f"u{number}", large="x" * 2000)
    async with infra.controller(quota={ALL: 60 * KIB}):
        await eventually(lambda: sum("tenant tenant1" in one["message"] for one in entries(infra, 4, "admin")) == 2)
        assert len(infra.pods(SYSTEM)) == 2


def test_what_is_written_in_time_is_bounded() -> None:
    now = 0.0
    storing = Storing({}, clock=lambda: now)
    assert storing.obstacle((T1, "u"), KEY, 128 * KIB * KIB) is None
    refused = storing.obstacle((T1, "u"), KEY, 256 * KIB)
    assert isinstance(refused, Waiting)
    assert (refused.reason, storing.writes.take(T1, 256 * KIB)) == ("Throttled", 1.0)
    assert storing.obstacle((T2, "u"), KEY, 256 * KIB) is None
    now += 1.0
    assert storing.obstacle((T1, "u"), KEY, 256 * KIB) is None
    # What was refused was not written.
    storing.failed(KEY)
    assert storing.obstacle((T1, "u"), KEY, 256 * KIB) is None
    # A deletion cannot wait, and what is made afterwards does.
    storing.writes.spend(T1, 512 * KIB)
    assert storing.writes.take(T1, 256 * KIB) == 3.0


def test_the_successor_of_a_companion_is_paid_for_before_it_goes() -> None:
    now = 0.0
    storing, one = Storing({ALL: 60 * KIB, PENDING: 100 * KIB}, clock=lambda: now), companion_of(pod("one", 50 * KIB))
    storing.seen(one.key, None, one)
    assert storing.replacement(one, 50 * KIB) is None  # though both together are beyond the bound
    storing.seen(one.key, one, replace(one, ending=True))
    storing.seen(one.key, replace(one, ending=True), None)
    assert isinstance(storing.obstacle((T1, "u"), KEY, 50 * KIB), Problem)
    storing.writes.spend(T1, 128 * KIB * KIB)
    assert storing.obstacle((T1, "u"), one.key, 50 * KIB) is None
    storing.seen(one.key, None, replace(one, uid="successor"))
    storing.seen(one.key, replace(one, uid="successor"), one)
    assert not isinstance(storing.obstacle((T1, "u"), KEY, 9 * KIB), Problem)
    assert isinstance(storing.replacement(one, 50 * KIB), Waiting)
    # One that never comes is forgotten.
    now += 10_000.0
    assert storing.replacement(one, 5 * KIB) is None
    now += 301.0
    storing.expire()
    assert storing.obstacle((T1, "u"), KEY, 9 * KIB) is None


def test_the_bound_follows_the_cache() -> None:
    """What is being made counts as well, until it is seen or has failed."""
    storing, one = Storing({ALL: 100 * KIB}), companion_of(pod("one", 60 * KIB))
    assert storing.obstacle((T1, "u"), one.key, 60 * KIB) is None
    assert isinstance(storing.obstacle((T1, "u"), KEY, 50 * KIB), Problem)
    storing.failed(one.key)
    assert storing.obstacle((T1, "u"), KEY, 50 * KIB) is None
    storing.forget()
    storing.seen(one.key, None, one)
    assert isinstance(storing.obstacle((T1, "u"), KEY, 50 * KIB), Problem)
    smaller = replace(companion_of(pod("one", 30 * KIB)), version=2)
    storing.seen(one.key, one, smaller)
    assert storing.obstacle((T1, "u"), KEY, 50 * KIB) is None
    storing.seen(KEY, None, replace(one, name="two"))
    assert isinstance(storing.obstacle((T1, "u"), (T1, "three"), 20 * KIB), Problem)
    storing.seen(KEY, replace(one, name="two"), None)
    storing.seen(one.key, smaller, None)
    assert storing.obstacle((T1, "u"), KEY, 100 * KIB) is None


async def test_companions_without_a_node_are_bounded(infra: Infra) -> None:
    """The scheduler writes each of them again whenever there is another reason."""
    await infra.rule("r", inject={"a": "@"})
    for number in range(4):
        await infra.workload(f"u{number}", large="x" * 2000)
    async with infra.controller(quota={PENDING: 8 * KIB}) as client:
        await eventually(lambda: sum(one.get("reason") == "Unscheduled" for one in entries(infra, 4)) == 2)
        message = next(one["message"] for one in entries(infra, 4) if one.get("reason") == "Unscheduled")
        assert message.startswith("the companions without a node of tenant tenant1 have ")
        assert message.endswith("can raise --tenant-quota companions/pending-bytes")
        first, second = infra.pods(T1)
        await infra.bind(first)
        await eventually(lambda: len(infra.pods(T1)) == 3)
        await infra.bind(second)
        await eventually(lambda: len(infra.pods(T1)) == 4)
        assert client.counts["delete pods"] == client.counts["patch pods"] == 0


async def test_what_changes_too_often_is_written_later(infra: Infra, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of a label that is injected patches a Pod, and each status is stored with all of its rule."""
    monkeypatch.setattr("app.workloads.controller.storing._BURST", 15 * KIB)
    monkeypatch.setattr("app.workloads.controller.storing._PER_SECOND", 1e-3)
    take, refused = Rate.take, list[float]()

    def noted(rate: Rate[str], tenant: str, size: float = 1.0) -> float:
        found = take(rate, tenant, size)
        refused.extend([size] if found else [])
        return found

    monkeypatch.setattr(Rate, "take", noted)
    template = {**POD, "metadata": {"annotations": {"large": "x" * 10 * KIB}}}
    await infra.rule("r", template=template, inject={"a": "state.extra"})
    await infra.workload("u0")
    async with infra.controller() as client:
        # The companion is made; then the status of the rule has to wait.
        await eventually(lambda: refused == [len(encode_json(template))])
        await infra.workload("u0", number="1")
        await eventually(lambda: [one.get("reason") for one in entries(infra, 1)] == ["Throttled"])
        assert client.counts["create pods"] == 1
        assert client.counts["patch pods"] == client.counts["patchstatus tenantworkloadrules"] == 0


async def test_what_is_replaced_runs_until_its_successor_may_be_made(
    infra: Infra, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of a template must not take down what it cannot bring up again."""
    monkeypatch.setattr("app.workloads.controller.storing._BURST", 50 * KIB)
    monkeypatch.setattr("app.workloads.controller.storing._PER_SECOND", 1e-3)
    template = {**POD, "metadata": {"annotations": {"large": "x" * 6 * KIB}}}
    await infra.rule("r", template=template)
    for number in range(4):
        await infra.workload(f"u{number}")
    async with infra.controller():
        await eventually(lambda: len(infra.pods(T1)) == 4)
        before = {pod["metadata"]["uid"] for pod in infra.pods(T1).values()}
        await infra.rule("r", template={**template, "metadata": {"annotations": {"large": "y" * 6 * KIB}}})
        await eventually(lambda: "Throttled" in [one.get("reason") for one in entries(infra, 4)])
        await eventually(lambda: len({pod["metadata"]["uid"] for pod in infra.pods(T1).values()} - before) == 1)
        assert len(infra.pods(T1)) == 4


async def test_successors_without_a_node_are_bounded(infra: Infra) -> None:
    await infra.rule("r", inject={"a": "@"})
    for number in range(4):
        await infra.workload(f"u{number}", large="x" * 2000)
    async with infra.controller():
        await eventually(lambda: len(infra.pods(T1)) == 4)
        for name in infra.pods(T1):
            await infra.bind(name)
    async with infra.controller(quota={PENDING: 8 * KIB}):
        await infra.rule("r", image="other", inject={"a": "@"})
        await eventually(lambda: sum("deletionTimestamp" in one["metadata"] for one in infra.pods(T1).values()) == 2)
        await eventually(lambda: sum(one.get("reason") == "Unscheduled" for one in entries(infra, 4)) == 2)
        async with asyncio.timeout(PATIENCE):
            while [pod["spec"]["containers"][0]["image"] for pod in infra.pods(T1).values()] != ["other"] * 4:
                for name, pod in infra.pods(T1).items():
                    if "deletionTimestamp" in pod["metadata"]:
                        await infra.confirm(name)
                    elif not pod["spec"].get("nodeName"):
                        await infra.bind(name)
                await asyncio.sleep(0.05)


async def test_a_full_quota_is_asked_once_for_all_companions_of_a_workload(infra: Infra) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/pods": "5"}}}
    await infra.admin.create(RESOURCE_QUOTAS, quota, namespace=T1)
    for number in range(40):
        await infra.rule(f"r{number:02}")
    async with infra.controller() as client:
        await infra.workload("u0")

        def refused() -> list[JSON]:
            rules = (infra.status(WORKLOADS, "workload-u0").get("rules") or {}).get("tenant") or []
            return [rule for rule in rules if rule["status"].get("reason") == "QuotaExceeded"]

        await eventually(lambda: len(refused()) == 35)
        assert len(infra.pods(T1)) == 5
        # One refusal for each try, of which there are few.
        assert client.counts["create pods"] <= 5 + 8
        assert all("exceeded quota: q" in rule["status"]["message"] for rule in refused())


async def test_many_companions_of_one_tenant_hold_up_none_of_another(infra: Infra) -> None:
    """Each workload of tenant1 has thirty; what tenant2 wants comes after the requests that are under way."""
    for number in range(30):
        await infra.rule(f"r{number:02}")
    await infra.rule("quiet", namespace=T2)
    for number in range(6):
        await infra.workload(f"u{number}")
    client, made = await infra.client(), list[str]()

    async def note(verb: str, name: str) -> None:
        if verb == "create":
            made.append(name)
            if len(made) == 10:
                await infra.workload("v", namespace=T2)

    client.before = note
    async with infra.controller(client, workers=2, quota={}):
        await eventually(lambda: len(made) == 181)
    await client.close()
    assert made.index("quiet-v") < 60
