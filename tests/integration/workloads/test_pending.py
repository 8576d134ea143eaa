"""How many companions of one tenant may be without a node at a time, and who is woken when there is room."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.workloads.companions.marks import companion_of
from app.workloads.controller.places import Waiters
from app.workloads.controller.storing import NUMBER, OF_HOST, QUEUED, Storing
from app.workloads.model import Waiting
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import JSON, KIB, SYSTEM, T1, T2, Infra, entries, pod

KEY = (T1, "two")


def test_one_workload_is_woken_for_each_companion_that_may_be_made() -> None:
    woken = list[str]()
    storing = Storing({QUEUED: 2, NUMBER: 3, OF_HOST: 9}, wake=lambda workload: woken.append(workload[1]))
    one = replace(companion_of(pod("one", KIB)), queued=True)

    def reasons(names: str, tenant: str = T1) -> list[str]:
        found = [storing.unscheduled((tenant, name), tenant, None) for name in names]
        return [waiting.reason if waiting else "" for waiting in found]

    storing.seen(one.key, None, one)
    assert reasons("a") == [""]
    assert storing.obstacle((T1, "u"), KEY, KIB) is None  # it is being made
    assert reasons("abcb") == ["Queued"] * 4
    assert reasons("a", T2) == [""]
    storing.seen(KEY, None, replace(one, name="two"))
    storing.seen(one.key, one, one)
    assert not woken
    storing.seen(one.key, one, replace(one, queued=False))
    assert woken == ["a"]
    storing.seen(KEY, replace(one, name="two"), None)
    assert woken == ["a", "b", "c"]
    for name in ("two", "three"):
        assert storing.obstacle((T1, "u"), (T1, name), KIB) is None
    # What the scheduler has looked at still has no node.
    storing.seen((T1, "two"), None, replace(one, name="two", queued=False))
    storing.seen((T1, "three"), None, replace(one, name="three", queued=False))
    assert reasons("de") == ["Unscheduled"] * 2
    storing.seen(one.key, replace(one, queued=False), replace(one, queued=False, bound=True))
    assert woken == ["a", "b", "c", "d"]
    # One that was woken may have had no use for the place.
    storing.expire()
    assert woken == ["a", "b", "c", "d", "e"]
    assert not [*storing.waiters]


@pytest.mark.parametrize(
    ("spec", "status", "queued"),
    [
        ({}, {}, True),
        ({"schedulerName": "default-scheduler"}, {"conditions": [{"type": "Ready", "status": "False"}]}, True),
        ({"nodeName": "n"}, {}, False),
        ({}, {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}, False),
        ({}, {"phase": "Failed"}, False),
        ({"schedulerName": "another"}, {}, False),
        ({"resourceClaims": [{"name": "a", "resourceClaimName": "missing"}]}, {}, False),
    ],
)
def test_which_companions_the_scheduler_has_yet_to_look_at(spec: JSON, status: JSON, queued: bool) -> None:  # noqa: FBT001
    found = pod("one", KIB) | {"spec": spec, "status": status}
    assert companion_of(found).queued is queued
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not companion_of(found).queued


def test_terms_that_select_pods_count_for_more() -> None:
    """The scheduler goes through them for each Pod that comes or goes, while their own Pod has no node."""
    storing = Storing({NUMBER: 20}, wake=lambda _: None)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term] * 4}}
    heavy = companion_of(pod("one", KIB) | {"spec": {"affinity": affinity, "topologySpreadConstraints": [term]}})
    assert heavy.weight == 21
    storing.seen(heavy.key, None, heavy)
    assert storing.unscheduled((T1, "u"), T1, None) is not None
    assert storing.unscheduled((T1, "u"), SYSTEM, None) is None  # a companion of the admin's rules
    storing.seen(heavy.key, heavy, replace(heavy, bound=True))
    assert storing.obstacle((T1, "u"), KEY, KIB, weight=19) is None
    assert storing.obstacle((T1, "u"), (T1, "two"), KIB, weight=50) is None  # there is room for one
    assert storing.obstacle((T1, "u"), (T1, "three"), KIB) is not None


def test_a_successor_waits_for_the_scheduler_only_when_it_is_made() -> None:
    storing = Storing({QUEUED: 1, NUMBER: 2, OF_HOST: 2})
    first, second, third = (companion_of(pod(name, KIB)) for name in ("one", "two", "three"))
    bound = [replace(one, bound=True, queued=False, host="h") for one in (first, second, third)]
    for one in bound:
        storing.seen(one.key, None, one)
    assert [storing.replacement(one, KIB) for one in bound[:2]] == [None, None]
    waiting = storing.replacement(bound[2], KIB)
    assert isinstance(waiting, Waiting)
    assert waiting.reason == "Unscheduled"
    for one in bound[:2]:
        storing.seen(one.key, one, None)
    assert storing.obstacle((T1, "u"), first.key, KIB, host="h") is None
    waiting = storing.obstacle((T1, "u"), second.key, KIB, host="h")
    assert isinstance(waiting, Waiting)
    assert waiting.reason == "Queued"
    storing.seen(first.key, None, replace(bound[0], uid="new"))
    assert storing.obstacle((T1, "u"), second.key, KIB, host="h") is None
    storing.seen(second.key, None, replace(bound[1], uid="new"))
    for one in bound:
        storing.seen(one.key, one, None)
    # Nothing of them counts any more: there is room for as many as at first.
    assert [storing.obstacle((T1, "u"), one.key, KIB, host=None) is None for one in (first, second)] == [True, False]
    storing.failed(first.key)
    for one in bound[:2]:
        storing.seen(one.key, None, one)
    assert [storing.replacement(one, KIB) for one in bound[:2]] == [None, None]


async def test_few_companions_of_a_tenant_wait_for_the_scheduler_at_a_time(
    infra: Infra, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of other tenants wait behind them; what has no node does so no more."""
    monkeypatch.setattr("app.workloads.controller.controller._PENDING_PAUSE", 0.2)
    await infra.rule("r")
    await infra.rule("r", namespace=T2)
    for number in range(5):
        await infra.workload(f"u{number}")
    async with infra.controller(quota={QUEUED: 2}) as client:
        await eventually(lambda: len(infra.pods(T1)) == 2)
        await eventually(lambda: sum(one.get("reason") == "Queued" for one in entries(infra, 5)) == 3)
        await infra.workload("v", namespace=T2)
        await eventually(lambda: len(infra.pods(T2)) == 1)
        first, second = infra.pods(T1)
        await infra.bind(first)
        await eventually(lambda: len(infra.pods(T1)) == 3)
        await infra.unschedulable(second)
        await eventually(lambda: len(infra.pods(T1)) == 4)
        assert client.counts["create pods"] == 5
        third = next(name for name in infra.pods(T1) if name not in (first, second))
        await infra.bind(third)
        await eventually(lambda: len(infra.pods(T1)) == 5)
        for name in infra.pods(T1).keys() - {first, third}:
            await infra.bind(name)
        # A change of the template is no way around it.
        await infra.rule("r", image="other")
        await eventually(lambda: sum("deletionTimestamp" in one["metadata"] for one in infra.pods(T1).values()) == 5)
        for name in infra.pods(T1):
            await infra.confirm(name)
        await eventually(lambda: len(infra.pods(T1)) == 2)
        async with asyncio.timeout(PATIENCE):
            while [one["spec"]["containers"][0]["image"] for one in infra.pods(T1).values()] != ["other"] * 5:
                waiting = [name for name, one in infra.pods(T1).items() if not one["spec"].get("nodeName")]
                assert len(waiting) <= 2
                for name in waiting:
                    await infra.bind(name)
                await asyncio.sleep(0.05)


async def test_a_full_dpu_leaves_room_for_companions_on_others(infra: Infra, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no node is looked at again and again, so there are few for one host, and in all."""
    monkeypatch.setattr("app.workloads.controller.controller._PENDING_PAUSE", 0.2)
    await infra.rule("r", policy="SameNode")
    for number in range(4):
        await infra.workload(f"u{number}", node="full")
    async with infra.controller(quota={NUMBER: 4, OF_HOST: 2}):
        await eventually(lambda: sum(one.get("reason") == "Unscheduled" for one in entries(infra, 4)) == 2)
        message = next(one["message"] for one in entries(infra, 4) if one.get("reason") == "Unscheduled")
        assert message == (
            "tenant tenant1 has as many companions without a node for host full as it may; the cloud admin can raise "
            "--tenant-quota companions/pending-of-host"
        )
        full = [*infra.pods(T1)]
        for number in range(4, 7):
            await infra.workload(f"u{number}", node=f"host-{number}")
        await eventually(lambda: len(infra.pods(T1)) == 4)
        await eventually(lambda: any("companions/pending" in one["message"][-18:] for one in entries(infra, 7)))
        await infra.bind(full[0])
        await eventually(lambda: len(infra.pods(T1)) == 5)


def test_waiters_keep_their_order_and_leave_nothing_behind() -> None:
    woken = list[str]()
    waiters = Waiters(lambda workload: woken.append(workload[1]))
    full, other = (T1, "Any"), (T1, "SameNode")
    for name in "abc":
        waiters.add(full, (T1, name))
    waiters.add(full, (T1, "a"))
    waiters.add(other, (T1, "a"))
    waiters.wake(full, 0)
    waiters.wake(full, 1)
    assert woken == ["a"]
    assert (T1, "a") in waiters  # in the other group
    waiters.discard(full, (T1, "b"))
    waiters.discard(full, (T1, "b"))
    for group in waiters:
        waiters.wake(group, 5)
    assert woken == ["a", "c", "a"]
    assert (T1, "a") not in waiters
    assert not [*waiters]
