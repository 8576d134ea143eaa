"""AppWrappers with quota, several times: by Kueue itself, which leaves Workloads to Berth or makes them, for Berth and for
AppWrapper's own manager, and by the stand-in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.appwrappers.kueue.model import RESOURCE_FLAVORS
from app.appwrappers.model import APP_WRAPPERS as KIND
from app.devtools.clusters.definitions import APP_WRAPPERS, define, install
from app.devtools.clusters.parts import running_parts
from app.devtools.kueue.definitions import KINDS, kueue_definitions
from app.devtools.kueue.stand_in import KueueStandIn
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.wiring import Permission
from tests.support.appwrapper_reviews import start_registered
from tests.support.appwrappers import SYSTEM
from tests.support.chart_accounts import GROUP as ACCOUNTS
from tests.support.chart_accounts import ChartAccounts, recorded
from tests.support.control_plane import NODE_NAMES, ControlPlane, started
from tests.support.many_nodes import MANY, add_nodes, node
from tests.support.processes import Role
from tests.support.queued_cluster import Part, QueuedCluster
from tests.support.rbac import allow
from tests.support.real_operators import KUEUE, SERVICES, real_app_wrapper, real_kueue, real_kwok
from tests.support.real_parts import needs

JSON = dict[str, Any]
_PROGRAMS = ("kueue", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_SIDES = {"ours": needs(*_PROGRAMS), "theirs": needs(*_PROGRAMS), "codeflare": needs(*_PROGRAMS, "appwrapper")}
SIDES = ["stand-in", *(pytest.param(name, marks=marks) for name, marks in _SIDES.items())]
"""Who makes Workloads beside the real Kueue: Berth, as beside the stand-in, or Kueue's own integration. With `codeflare`, it
does so for AppWrapper's own manager in place of Berth."""
_FRAMEWORKS = ["batch/job", "pod"]
_FRAMEWORK = "AppWrapper.v1beta2.workload.codeflare.dev"
_OURS = {"frameworks": _FRAMEWORKS, "externalFrameworks": [_FRAMEWORK]}
_THEIRS = {"frameworks": [*_FRAMEWORKS, "workload.codeflare.dev/appwrapper"]}
KUEUE_ACCOUNT = f"system:serviceaccount:{KUEUE.namespace}:{KUEUE.account}"
ADMITS = Permission("cluster", KIND.group, (KIND.plural,), ("admit",))
"""What the page gives to Kueue where admission is strict."""


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
    frameworks = [{"name": _FRAMEWORK}] if request.param == "ours" else []
    async with (
        queued_cluster(request.param, folders[0], multiKueue={"externalFrameworks": frameworks}) as manager,
        queued_cluster(request.param, folders[1]) as worker,
    ):
        yield manager, worker


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SIDES[1:3])
async def crowd(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[QueuedCluster]:
    """Many nodes, of which KWOK runs the Pods."""
    folder = tmp_path_factory.mktemp("crowd")
    async with queued_cluster(request.param, folder, nodes=()) as cluster:
        await add_nodes(cluster.client, [node(f"node-{number:03}") for number in range(MANY)])
        async with real_kwok(cluster.client, cluster.kubeconfig, folder / "nodes"):
            yield cluster


@contextlib.asynccontextmanager
async def queued_cluster(
    side: str, folder: Path, *, nodes: Sequence[str] = NODE_NAMES, **configuration: Any
) -> AsyncIterator[QueuedCluster]:
    """With stand-ins for these nodes; `configuration` has further fields of the real Kueue's."""
    real = side != "stand-in"
    options: JSON = {"services": SERVICES, "audited": ACCOUNTS} if real else {}
    async with started(folder, real=real, nodes=nodes, capacity={"nvidia.com/gpu": "2"}, **options) as plane:
        await plane.client.create(NAMESPACES, NAMESPACES.body({"name": SYSTEM}))
        if side != "codeflare":
            await install(plane.client, APP_WRAPPERS)
        async with _kueue(side, plane, folder, **configuration) as kueue, _manager(side, plane, folder) as manager:
            await plane.client.create(RESOURCE_FLAVORS, RESOURCE_FLAVORS.body({"name": "default"}, spec={}))
            yield QueuedCluster(plane.client, side, kueue=kueue, manager=manager, kubeconfig=plane.kubeconfig)


@contextlib.asynccontextmanager
async def _manager(side: str, plane: ControlPlane, folder: Path) -> AsyncIterator[Part]:
    """AppWrapper's own, or Berth's webhook, which is strict, and its controller, which waits for Kueue's definitions.

    Both have the rights of the chart alone, and are refused nothing.
    """
    if side == "codeflare":
        async with real_app_wrapper(plane.client, plane.kubeconfig, folder) as manager:
            yield manager
        return
    accounts = ChartAccounts(plane.client, plane.kubeconfig)
    controllers = ["appwrappers"] if side == "theirs" else ["appwrappers", "appwrapper-workloads"]
    webhook = {"args": {"appwrappers": True, "appwrapperStrict": True}}
    await accounts.install({"webhook": webhook, "controller": {"enabled": True, "args": {"controllers": controllers}}})
    await allow(plane.client, KUEUE_ACCOUNT, [ADMITS], role="appwrapper-admitter", release=SYSTEM)
    with pytest.MonkeyPatch.context() as patch:
        in_sandbox = recorded(patch)
        async with _berth(plane, folder, accounts, controllers) as controller:
            yield controller
    refused = accounts.refused() if plane.real else [who for who in in_sandbox if SYSTEM in who[0]]
    assert refused == []


@contextlib.asynccontextmanager
async def _berth(
    plane: ControlPlane, folder: Path, accounts: ChartAccounts, controllers: Sequence[str]
) -> AsyncIterator[Part]:
    """The webhook and the controller."""
    async with running_parts() as parts:
        kubeconfig = await accounts.kubeconfig("webhook")
        settings = {"kubeconfig": kubeconfig, "appwrapper_strict": True}
        await start_registered(parts, plane.client, folder / "webhook", **settings)
        flags = (f"--kubeconfig={await accounts.kubeconfig('controller')}", f"--namespace={SYSTEM}")
        controller = Role("controller", *flags, f"--controllers={','.join(controllers)}")
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
