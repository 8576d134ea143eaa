"""A hundred AppWrappers at once, whose Jobs' Pods KWOK runs on hundreds of nodes, within the quota of a queue."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import structlog

from app.appwrappers.kueue.model import FINISHED
from app.appwrappers.model import APP_WRAPPERS
from app.kube.conditions import is_true
from app.kube.resources import PODS
from bench.processes import resident_mib
from tests.support.many_nodes import all_of
from tests.support.processes import Role
from tests.support.queued_cluster import Queue, QueuedCluster, job
from tests.support.real_parts import needs
from tests.support.waiting import eventually

JSON = dict[str, Any]
log = structlog.get_logger(__name__)
pytestmark = [*needs("kwok"), pytest.mark.timeout(1800)]
WRAPPERS, PODS_OF_EACH = 100, 4
CPUS = 80
"""Of the queue: a fifth of what all Pods ask for."""
_WORKING, _OF_A_WRAPPER = 20.0, 0.125
"""MiB that the controller may grow by for its work, and for each AppWrapper with its Job, its Pods and its Workload."""


async def test_each_runs_once_though_the_controller_is_killed_meanwhile(crowd: QueuedCluster) -> None:
    manager = crowd.manager
    assert isinstance(manager, Role)
    before = resident_mib(manager.pid)
    async with crowd.queue(CPUS) as queue:
        for number in range(WRAPPERS):
            await queue.submit(f"a{number}", job(f"j{number}", pods=PODS_OF_EACH))
        ended = await eventually(lambda: _in(queue, "Succeeded"), lambda count: count > WRAPPERS // 3)
        assert ended < WRAPPERS, "nothing is left to do when the controller is killed"
        await manager.kill()
        await manager.start()
        await eventually(lambda: _in(queue, "Succeeded"), lambda count: count == WRAPPERS)
        pods = await all_of(crowd.client, PODS, namespace=queue.namespace)
        assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
        made = Counter(pod["metadata"]["labels"]["job-name"] for pod in pods)
        assert made == {f"j{number}": PODS_OF_EACH for number in range(WRAPPERS)}
        workloads = await eventually(queue.workloads, lambda found: all(is_true(w["status"], FINISHED) for w in found))
        assert len(workloads) == WRAPPERS
        grown = resident_mib(manager.pid) - before
        log.info("memory of the controller", side=crowd.side, before_mib=before, grown_mib=grown)
        assert grown < _WORKING + _OF_A_WRAPPER * WRAPPERS
        await queue.unused()


async def _in(queue: Queue, phase: str) -> int:
    """How many AppWrappers are in it."""
    found = await all_of(queue.client, APP_WRAPPERS, namespace=queue.namespace)
    return sum((wrapper.get("status") or {}).get("phase") == phase for wrapper in found)
