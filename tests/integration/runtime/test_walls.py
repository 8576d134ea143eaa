"""Every task of every role has the wall: what one object raises ends neither the task nor the process.

All roles run in this process, in the sandbox with every wing. Whatever becomes a task of Berth in its loop is either
behind the wall, or known here with the reason why a fault in it ends no more than one call.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest_asyncio

from app.devtools.clusters.parts import Parts, running_parts
from app.devtools.clusters.plans import EVERY_WING, INFRA
from app.devtools.clusters.sandbox import Sandbox, Whole
from app.kube.resources import CONFIG_MAPS, PODS
from app.kube.transport import connect
from app.kube.walls import standing
from app.registry import BY_NAME
from app.runtime.manager import _measure_lag
from tests.support.waiting import PATIENCE, eventually

APP = str(Path(inspect.getfile(standing)).parents[1])
DEVTOOLS = f"{APP}/devtools/"
WALL = standing.__qualname__
STARTED_HERE = {"certificates", "claims-node", "ui"}
OF_THE_SANDBOX = {"webhook", "controller", "gateway", "agent", "rmd-node"}

WITHOUT = {
    # What runs other tasks, and handles nothing itself.
    "lasting": "runs a runnable, whose tasks are its own",
    "LeaderElected._term": "the runnable of a term, whose tasks are its own",
    "Gateway.run": "a group of tasks",
    "Serving.run": "the same",
    "Sources.run": "caches, which are tasks with the wall",
    "Kit.run": "the page's caches, which are tasks with the wall",
    "_Serving.run": "a server, and what follows its certificate is a task with the wall",
    "Controller.run": "its workers and its feed are tasks with the wall",
    "Health.serve": "a thread, which handles no objects",
    "Serving._serve_reviews": "a server: each review has a wall in app.admission.endpoint",
    # One connection, call or request, which ends alone.
    "Listener._open": "one connection",
    "Connection._hand_on": "one connection of the gateway",
    "_Stream._read": "one call of one tenant, and each event of it has a wall",
    "WorkloadWriter.work": "the same, and each workload has a wall",
    "Doubles.work": "the same, and each other tenant has a wall",
    "WorkloadSender.session": "one call of the agent: `keep`, which begins the next, is behind the wall",
    "Watch.session": "the same",
    "Discovery._read": "one request: its callers get what it raises",
    "PodResources._listed": "the same",
    "FencedRequest.write_bytes": "the same",
}
"""By the qualified name of the coroutine function: why a fault in it ends no more than it."""


class Tasks:
    """Keeps the names of the coroutines of Berth that become tasks in this loop."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        code = getattr(coroutine, "cr_code", None)
        if code is not None and code.co_filename.startswith(APP) and not _of_the_sandbox(code.co_filename):
            self.seen.add(code.co_qualname)
        return asyncio.Task(coroutine, loop=loop, **options)


def _of_the_sandbox(file: str) -> bool:
    """Whether the task is of the sandbox, or is made by it: its stand-ins have caches as well."""
    frame = sys._getframe(2)
    while frame is not None and not frame.f_code.co_filename.startswith(APP):
        frame = frame.f_back
    return file.startswith(DEVTOOLS) or (frame is not None and frame.f_code.co_filename.startswith(DEVTOOLS))


@pytest_asyncio.fixture
async def tasks() -> AsyncIterator[Tasks]:
    loop, found = asyncio.get_running_loop(), Tasks()
    loop.set_task_factory(found)
    yield found
    loop.set_task_factory(None)


async def test_every_task_of_every_role_is_behind_the_wall(tasks: Tasks, tmp_path: Path) -> None:
    assert BY_NAME.keys() == STARTED_HERE | OF_THE_SANDBOX
    async with Sandbox(tmp_path).running() as whole, running_parts() as parts:
        await _start_other_roles(parts, whole, files=tmp_path / "gateway")
        await _give_work(whole)
    assert WALL in tasks.seen
    assert sorted(tasks.seen - WITHOUT.keys() - {WALL}) == []


async def _start_other_roles(parts: Parts, whole: Whole, *, files: Path) -> None:
    infra, tenant = (str(whole.cluster(name).kubeconfig) for name in (INFRA, EVERY_WING))
    await parts.start("certificates", {"kubeconfig": infra, "namespace": "universe"}, where=INFRA)
    await parts.start("claims-node", {"kubeconfig": tenant, "node_name": "host-a"}, where=EVERY_WING)
    pair = {"tls_cert_file": str(files / "tls.crt"), "tls_private_key_file": str(files / "tls.key")}
    await parts.start("ui", {"kubeconfig": tenant, "access": "callers", "port": 0, **pair}, where=EVERY_WING)
    elected = {"kubeconfig": infra, "namespace": "universe", "controllers": ("tenants",)}
    await parts.start("controller", elected, where=INFRA)


async def _give_work(whole: Whole) -> None:
    """A rule with a companion, so that each end of the Workload API has sent something."""
    async with await connect(kubeconfig=str(whole.cluster("tenant2").kubeconfig), deadline=PATIENCE) as client:
        spec = {"containers": [{"name": "c", "image": "busybox"}]}
        pod = PODS.body({"name": "p", "namespace": "default", "labels": {"app": "p"}}, spec=spec)
        await client.create(PODS, pod, namespace="default")
        settings = CONFIG_MAPS.body({"name": "c", "namespace": "default"}, data={"a": "b"})
        await client.create(CONFIG_MAPS, settings, namespace="default")
        await eventually(lambda: client.get(PODS, "p", namespace="default"))


async def test_a_task_without_the_wall_is_seen(tasks: Tasks) -> None:
    """The same loop without its wall: what the test above fails for."""
    loop = asyncio.create_task(_measure_lag())
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    assert tasks.seen - WITHOUT.keys() - {WALL} == {_measure_lag.__qualname__}
