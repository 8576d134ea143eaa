"""AppWrappers with quota, several times: by Kueue itself, which leaves Workloads to Berth or makes them, for Berth and for
AppWrapper's own manager, and by the stand-in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.appwrappers.kueue.model import RESOURCE_FLAVORS
from app.devtools.clusters.definitions import APP_WRAPPERS, define, install
from app.devtools.clusters.parts import running_parts
from app.devtools.kueue.definitions import KINDS, kueue_definitions
from app.devtools.kueue.stand_in import KueueStandIn
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from tests.support.appwrapper_reviews import start_registered
from tests.support.appwrappers import SYSTEM
from tests.support.control_plane import ControlPlane, started
from tests.support.processes import Berth
from tests.support.queued_cluster import Part, QueuedCluster
from tests.support.real_operators import SERVICES, real_app_wrapper, real_kueue
from tests.support.real_parts import needs

_PROGRAMS = ("kueue", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_SIDES = {"ours": needs(*_PROGRAMS), "theirs": needs(*_PROGRAMS), "codeflare": needs(*_PROGRAMS, "appwrapper")}
SIDES = ["stand-in", *(pytest.param(name, marks=marks) for name, marks in _SIDES.items())]
"""Who makes Workloads beside the real Kueue: Berth, as beside the stand-in, or Kueue's own integration. With `codeflare`, it
does so for AppWrapper's own manager in place of Berth."""
_FRAMEWORKS = ["batch/job", "pod"]
_APP_WRAPPER = "AppWrapper.v1beta2.workload.codeflare.dev"
_OURS = {"frameworks": _FRAMEWORKS, "externalFrameworks": [_APP_WRAPPER]}
_THEIRS = {"frameworks": [*_FRAMEWORKS, "workload.codeflare.dev/appwrapper"]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module whose `STAND_IN` is False states what the stand-in does not have."""
    if "queues" in metafunc.fixturenames:
        sides = SIDES if getattr(metafunc.module, "STAND_IN", True) else SIDES[1:]
        metafunc.parametrize("queues", sides, indirect=True, scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def queues(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[QueuedCluster]:
    async with queued_cluster(request.param, tmp_path_factory.mktemp("kueue")) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SIDES[1:3])
async def clusters(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[QueuedCluster, QueuedCluster]]:
    """Two of them: AppWrappers of the first can run in the second (MultiKueue)."""
    folders = [tmp_path_factory.mktemp(name) for name in ("manager", "worker")]
    # Where Berth makes the Workloads, Kueue knows the kind by its adapter for external frameworks alone.
    frameworks = [{"name": _APP_WRAPPER}] if request.param == "ours" else []
    async with (
        queued_cluster(request.param, folders[0], multiKueue={"externalFrameworks": frameworks}) as manager,
        queued_cluster(request.param, folders[1]) as worker,
    ):
        yield manager, worker


@contextlib.asynccontextmanager
async def queued_cluster(side: str, folder: Path, **configuration: Any) -> AsyncIterator[QueuedCluster]:
    """`configuration` has further fields of the real Kueue's."""
    real = side != "stand-in"
    options = {"services": SERVICES} if real else {}
    async with started(folder, real=real, capacity={"nvidia.com/gpu": "2"}, **options) as plane:
        await plane.client.create(NAMESPACES, NAMESPACES.body({"name": SYSTEM}))
        if side != "codeflare":
            await install(plane.client, APP_WRAPPERS)
        async with _kueue(side, plane, folder, **configuration) as kueue, _manager(side, plane, folder) as manager:
            await plane.client.create(RESOURCE_FLAVORS, RESOURCE_FLAVORS.body({"name": "default"}, spec={}))
            yield QueuedCluster(plane.client, side, kueue=kueue, manager=manager, kubeconfig=plane.kubeconfig)


@contextlib.asynccontextmanager
async def _manager(side: str, plane: ControlPlane, folder: Path) -> AsyncIterator[Part]:
    """AppWrapper's own, or Berth's webhook and its controller, which waits for Kueue's definitions."""
    if side == "codeflare":
        async with real_app_wrapper(plane.client, plane.kubeconfig, folder) as manager:
            yield manager
        return
    async with running_parts() as parts:
        await start_registered(parts, plane.client, folder / "webhook", kubeconfig=plane.kubeconfig)
        controllers = "appwrappers" if side == "theirs" else "appwrappers,appwrapper-workloads"
        flags = (f"--kubeconfig={plane.kubeconfig}", "--bind-address=127.0.0.1", "--health-check-port=0")
        controller = BerthController(*flags, f"--controllers={controllers}", f"--namespace={SYSTEM}")
        await controller.start()
        try:
            yield controller
        finally:
            await controller.stop()


@contextlib.asynccontextmanager
async def _kueue(side: str, plane: ControlPlane, folder: Path, **configuration: Any) -> AsyncIterator[Part]:
    if side == "stand-in":
        await define(plane.client, KINDS, kueue_definitions())
        stand_in = StandInProcess(plane.client)
        await stand_in.start()
        try:
            yield stand_in
        finally:
            await stand_in.kill()
        return
    configuration |= {"integrations": _OURS if side == "ours" else _THEIRS}
    async with real_kueue(plane.client, plane.kubeconfig, folder, **configuration) as kueue:
        yield kueue


class BerthController:
    """Berth's controller, which may be killed and started again."""

    def __init__(self, *flags: str) -> None:
        self._flags = flags
        self._berth: Berth | None = None

    async def start(self) -> None:
        self._berth = Berth("controller", *self._flags)
        await self._berth.until_ready()

    async def kill(self) -> None:
        assert self._berth is not None
        await self._berth.kill()

    async def stop(self) -> None:
        assert self._berth is not None
        assert await self._berth.end() == 0, self._berth.lines[-20:]


class StandInProcess:
    """The stand-in for Kueue, which may be ended at any step and started again."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(KueueStandIn(self._client).run())

    async def kill(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
