"""What becomes of AppWrappers in queues: the same beside the stand-in and beside Kueue, whoever makes the Workloads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.appwrappers.controller.stored import stored_app_wrapper
from app.appwrappers.kueue.model import (
    ADMITTED,
    CLUSTER_QUEUES,
    EVICTED,
    FINISHED,
    LOCAL_QUEUES,
    PAST_SECONDS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from app.appwrappers.kueue.workloads import name_of
from app.appwrappers.model import QUEUE_NAME
from app.kube.conditions import condition, is_true
from app.kube.resources import PODS
from app.text import moment
from tests.support.queued_cluster import QueuedCluster, failing, job, pod
from tests.support.waiting import eventually

JSON = dict[str, Any]
PREEMPTING = {"withinClusterQueue": "LowerPriority"}


async def test_those_beyond_the_quota_wait_and_run_after_each_other(queues: QueuedCluster) -> None:
    async with queues.queue(2) as queue:
        for number in range(4):
            await queue.submit(f"a{number}", job(f"j{number}", pods=2, seconds=2))
        for number in range(4):
            await queue.reaches(f"a{number}", "Succeeded")
            found = await queue.workload(f"a{number}", lambda one: is_true(one["status"], FINISHED))
            assert condition(found["status"], FINISHED)["reason"] == "Succeeded"
        assert queue.most == 2
        assert len(await queue.workloads()) == 4
        await queue.unused()


async def test_one_that_fails_says_so_and_gives_its_quota_back(queues: QueuedCluster) -> None:
    async with queues.queue(1) as queue:
        await queue.submit("broken", failing(job("broken"), 3), annotations={"retryLimit": "0"})
        await queue.reaches("broken", "Failed")
        found = await queue.workload("broken", lambda one: is_true(one["status"], FINISHED))
        assert condition(found["status"], FINISHED)["reason"] == "Failed"
        await queue.submit("next", pod("p", seconds=1))
        await queue.reaches("next", "Succeeded")


async def test_one_of_more_priority_takes_the_quota_and_the_other_comes_back(queues: QueuedCluster) -> None:
    await _priority_classes(queues)
    async with queues.queue(2, preemption=PREEMPTING) as queue:
        await queue.submit("low", job("low", pods=2), priority_class="low")
        await queue.reaches("low", "Running")
        await queue.submit("high", job("high", pods=2), priority_class="high")
        await queue.reaches("high", "Running")
        await queue.interrupted("low", reason="Preempted", waits=True)
        await queue.delete("high")
        await queue.reaches("low", "Running")


async def test_one_that_is_deactivated_does_not_wait_until_it_is_activated(queues: QueuedCluster) -> None:
    async with queues.queue(1) as queue:
        await queue.submit("first", pod("p"))
        await queue.reaches("first", "Running")
        name = (await queue.workload("first"))["metadata"]["name"]
        await queue.change(WORKLOADS, name, {"spec": {"active": False}})
        await queue.reaches("first", "Suspended")
        await queue.interrupted("first", reason="Deactivated", waits=False)
        await queue.submit("second", pod("q", seconds=1))
        await queue.reaches("second", "Succeeded")
        await queue.change(WORKLOADS, name, {"spec": {"active": True}})
        await queue.reaches("first", "Running")


@pytest.mark.parametrize("kind", ["LocalQueue", "ClusterQueue"])
async def test_a_queue_that_is_stopped_and_drained_takes_its_quota_until_it_is_started(
    queues: QueuedCluster, kind: str
) -> None:
    async with queues.queue(1) as queue:
        resource, name = (LOCAL_QUEUES, "lq") if kind == "LocalQueue" else (CLUSTER_QUEUES, queue.namespace)
        await queue.submit("one", pod("p"))
        await queue.reaches("one", "Running")
        await queue.change(resource, name, {"spec": {"stopPolicy": "HoldAndDrain"}})
        await queue.reaches("one", "Suspended")
        await queue.interrupted("one", reason=f"{kind}Stopped", waits=False)
        assert queue.used == 0
        await queue.change(resource, name, {"spec": {"stopPolicy": "None"}})
        await queue.reaches("one", "Running")


async def test_a_queue_that_is_held_lets_run_what_runs(queues: QueuedCluster) -> None:
    async with queues.queue(2) as queue:
        await queue.submit("runs", pod("p"))
        await queue.reaches("runs", "Running")
        await queue.change(LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "Hold"}})
        await queue.submit("waits", pod("q", seconds=1))
        await queue.workload("waits")
        await queue.change(LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "None"}})
        await queue.reaches("waits", "Succeeded")
        await queue.reaches("runs", "Running")


async def test_the_objects_in_it_have_no_workloads_of_their_own(queues: QueuedCluster) -> None:
    """Also where a LocalQueue `default` would give Jobs and Pods without a queue to Kueue."""
    async with queues.queue(2, name="default") as queue:
        await queue.submit("one", job("j", seconds=2), pod("p", seconds=2), queue="default")
        await queue.reaches("one", "Succeeded")
        assert queue.most == 2
        (found,) = await queue.workloads()
        assert [owner["kind"] for owner in found["metadata"]["ownerReferences"]] == ["AppWrapper"]


async def test_one_without_a_queue_waits_in_the_default_queue_of_its_namespace(queues: QueuedCluster) -> None:
    async with queues.queue(1, name="default") as queue:
        for number in range(2):
            made = await queue.submit(f"a{number}", pod(f"p{number}", seconds=1), queue="")
            assert made["metadata"]["labels"][QUEUE_NAME] == "default"
        for number in range(2):
            await queue.reaches(f"a{number}", "Succeeded")
        assert len(await queue.workloads()) == 2


async def test_the_seconds_of_admission_add_up(queues: QueuedCluster) -> None:
    """For `maximumExecutionTimeSeconds`, from each admission to the end of its reservation."""
    async with queues.queue(1) as queue:
        await queue.submit("timed", pod("p"), max_exec_time_seconds="600")
        past = 0
        for _ in range(2):
            admitted = await queue.workload("timed", lambda one: is_true(one["status"], ADMITTED))
            assert admitted["spec"]["maximumExecutionTimeSeconds"] == 600
            await queue.reaches("timed", "Running")
            await asyncio.sleep(2)
            name = admitted["metadata"]["name"]
            await queue.change(WORKLOADS, name, {"spec": {"active": False}})
            ended = await queue.workload(
                "timed", lambda one: condition(one["status"], ADMITTED).get("status") == "False"
            )
            past += int((_changed(ended, ADMITTED) - _changed(admitted, ADMITTED)).total_seconds())
            assert ended["status"].get(PAST_SECONDS, 0) in range(past - 1, past + 2)
            past = ended["status"][PAST_SECONDS]
            await queue.reaches("timed", "Suspended")
            await queue.change(WORKLOADS, name, {"spec": {"active": True}})
        assert past >= 4


async def test_one_that_is_deleted_gives_its_quota_to_the_next(queues: QueuedCluster) -> None:
    async with queues.queue(1) as queue:
        await queue.submit("first", pod("p"))
        await queue.reaches("first", "Running")
        await queue.submit("second", pod("q"))
        await queue.workload("second")
        await queue.delete("first")
        await queue.reaches("second", "Running")
        await eventually(lambda: queue.get(PODS, "p"), lambda found: not found)


async def test_one_whose_workload_a_user_deletes_waits_behind_those_that_wait(queues: QueuedCluster) -> None:
    if queues.side in ("theirs", "codeflare"):
        pytest.skip("Kueue's own integration gives the quota to either, and while Pods of the first still run")
    async with queues.queue(1) as queue:
        await queue.submit("first", pod("p"))
        await queue.reaches("first", "Running")
        workload = await queue.workload("first")
        await queue.submit("second", pod("q"))
        await queue.workload("second")
        await queues.client.delete(WORKLOADS, workload["metadata"]["name"], namespace=queue.namespace)
        await queue.reaches("second", "Running")
        await queue.reaches("first", "Suspended")
        assert (await queue.workload("first"))["metadata"]["uid"] != workload["metadata"]["uid"]
        await queue.delete("second")
        await queue.reaches("first", "Running")


async def test_a_workload_of_others_with_the_name_of_ours_is_told_of(queues: QueuedCluster) -> None:
    if queues.side in ("theirs", "codeflare"):
        pytest.skip("Kueue's own integration makes the Workload, and has no such Event")
    async with queues.queue(1) as queue:
        await queues.manager.kill()
        name = name_of(stored_app_wrapper(await queue.submit("waits", pod("p"))))
        pod_set = {"name": "main", "count": 1, "template": {"spec": pod("q")["spec"]}}
        body = WORKLOADS.body({"name": name}, spec={"podSets": [pod_set]})
        await queues.client.create(WORKLOADS, body, namespace=queue.namespace)
        await queues.manager.start()
        told = f"Workload {name} exists and is not of this AppWrapper: delete it"
        await eventually(queue.refusals, lambda texts: told in texts)
        await queues.client.delete(WORKLOADS, name, namespace=queue.namespace)
        await queue.reaches("waits", "Running")


@pytest.mark.parametrize("parts", [("manager",), ("kueue",), ("kueue", "manager")], ids="-".join)
async def test_a_preemption_goes_on_where_it_was_when_its_parts_were_killed(
    queues: QueuedCluster, parts: tuple[str, ...]
) -> None:
    await _priority_classes(queues)
    async with queues.queue(2, preemption=PREEMPTING) as queue:
        await queue.submit("low", job("low", pods=2), priority_class="low")
        await queue.reaches("low", "Running")
        await queue.submit("high", job("high", pods=2), priority_class="high")
        await queue.workload("low", lambda workload: is_true(workload["status"], EVICTED))
        for part in parts:
            await getattr(queues, part).kill()
        for part in parts:
            await getattr(queues, part).start()
        await queue.reaches("high", "Running")
        await queue.reaches("low", "Suspended")
        await queue.delete("high")
        await queue.reaches("low", "Running")


async def test_many_at_once_all_end_within_the_quota(queues: QueuedCluster) -> None:
    count, cpus = (20, 4) if queues.side == "stand-in" else (200, 12)
    async with queues.queue(cpus) as queue:
        for number in range(count):
            await queue.submit(f"a{number}", pod(f"p{number}", cpu=1 + number % 2, seconds=1))
        for number in range(count):
            await queue.reaches(f"a{number}", "Succeeded")
        assert queue.most > 1
        await queue.unused()


async def _priority_classes(queues: QueuedCluster) -> None:
    for name, value in (("low", 1), ("high", 10)):
        body = WORKLOAD_PRIORITY_CLASSES.body({"name": name}) | {"value": value}
        await queues.client.apply(WORKLOAD_PRIORITY_CLASSES, name, body)


def _changed(workload: JSON, kind: str) -> Any:
    found = moment(condition(workload["status"], kind)["lastTransitionTime"])
    assert found is not None
    return found
