"""AppWrappers with quota, three times: by Kueue itself, which leaves Workloads to Berth or makes them, and by the stand-in."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.appwrappers.kueue.model import RESOURCE_FLAVORS
from app.devtools.clusters.definitions import APP_WRAPPERS, define, install
from app.devtools.clusters.parts import running_parts
from app.devtools.kueue.definitions import KINDS, kueue_definitions
from app.devtools.kueue.stand_in import KueueStandIn
from app.kube.resources import NAMESPACES
from tests.support.appwrapper_reviews import start_registered
from tests.support.appwrappers import SYSTEM
from tests.support.control_plane import ControlPlane, started
from tests.support.processes import Berth
from tests.support.queued_cluster import QueuedCluster
from tests.support.real_kueue import SERVICES, real_kueue
from tests.support.real_parts import needs
from tests.support.running import running

HERE = Path(__file__).parent
_MARKS = needs("kueue", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
SIDES = ["stand-in", *(pytest.param(name, marks=_MARKS) for name in ("ours", "theirs"))]
"""Who makes Workloads beside the real Kueue: Berth, as beside the stand-in, or Kueue's own integration."""
_FRAMEWORKS = ["batch/job", "pod"]
_OURS = {"frameworks": _FRAMEWORKS, "externalFrameworks": ["AppWrapper.v1beta2.workload.codeflare.dev"]}
_THEIRS = {"frameworks": [*_FRAMEWORKS, "workload.codeflare.dev/appwrapper"]}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One cluster serves a module, so its tests live in one event loop."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("asyncio") is not None:
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SIDES)
async def queues(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[QueuedCluster]:
    side, folder = request.param, tmp_path_factory.mktemp("kueue")
    real = side != "stand-in"
    async with (
        started(folder, real=real, **({"services": SERVICES} if real else {})) as plane,
        running_parts() as parts,
    ):
        await plane.client.create(NAMESPACES, NAMESPACES.body({"name": SYSTEM}))
        await install(plane.client, APP_WRAPPERS)
        async with _kueue(side, plane, folder):
            flavor = RESOURCE_FLAVORS.body({"name": "default"}, spec={})
            await plane.client.create(RESOURCE_FLAVORS, flavor)
            await start_registered(parts, plane.client, folder / "webhook", kubeconfig=plane.kubeconfig)
            controllers = "appwrappers" if side == "theirs" else "appwrappers,appwrapper-workloads"
            flags = (f"--kubeconfig={plane.kubeconfig}", "--bind-address=127.0.0.1", "--health-check-port=0")
            berth = Berth("controller", *flags, f"--controllers={controllers}", f"--namespace={SYSTEM}")
            try:
                await berth.until_ready()
                yield QueuedCluster(plane.client, side)
            finally:
                assert await berth.end() == 0, berth.lines[-20:]


@contextlib.asynccontextmanager
async def _kueue(side: str, plane: ControlPlane, folder: Path) -> AsyncIterator[None]:
    if side == "stand-in":
        await define(plane.client, KINDS, kueue_definitions())
        async with running(KueueStandIn(plane.client).run()):
            yield
        return
    integrations = _OURS if side == "ours" else _THEIRS
    async with real_kueue(plane.client, plane.kubeconfig, folder, integrations=integrations):
        yield
