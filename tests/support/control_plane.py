"""Clusters whose Pods are scheduled and run: the sandbox with all stand-ins, and where the programs are given, a real
API server with a real scheduler and controller manager, of which the nodes are stand-ins."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.devtools.claims.multus import MultusStandIn
from app.devtools.clusters.definitions import BARE, install
from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.standins.kubelet import NodeSpec
from app.devtools.sandbox.standins.standins import StandIns
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, NODES
from app.kube.retry import get_or_none
from app.kube.transport import connect
from tests.support.real_apiserver import real_api_servers
from tests.support.real_control_plane import has_control_plane, real_control_plane
from tests.support.running import running
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
NAMESPACE = "team"
NODE_NAMES = ("host-a", "host-b")
_ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
CONTROL_PLANES = [
    "sandbox",
    *([pytest.param("real", marks=pytest.mark.conformance)] if has_control_plane(_ASSETS) else []),
]


@dataclass(frozen=True)
class ControlPlane:
    """A cluster with nodes and a namespace; `kubeconfig` and `client` are an administrator's."""

    kubeconfig: Path
    client: KubeClient
    real: bool


@contextlib.asynccontextmanager
async def _sandbox(directory: Path) -> AsyncIterator[Path]:
    async with Cluster("claims") as cluster:
        kubeconfig = directory / "admin.kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        yield kubeconfig


@contextlib.asynccontextmanager
async def _real(directory: Path, **options: Any) -> AsyncIterator[Path]:
    assets = Path(_ASSETS)
    # Both take a moment to start and to end.
    async with contextlib.AsyncExitStack() as stack:
        servers = await in_thread(stack, real_api_servers(assets, directory, ["claims"], **options))
        await in_thread(stack, real_control_plane(assets, directory / "claims"))
        yield servers["claims"]


async def in_thread(stack: contextlib.AsyncExitStack, manager: contextlib.AbstractContextManager[Any]) -> Any:
    """What the block of this manager gets; it is entered, and left with the stack, beside the loop."""
    entered = await asyncio.to_thread(manager.__enter__)
    stack.push_async_callback(asyncio.to_thread, manager.__exit__, None, None, None)
    return entered


@pytest_asyncio.fixture(params=CONTROL_PLANES)
async def control_plane(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    async with started(tmp_path, real=request.param == "real", networks=True) as made:
        yield made


@contextlib.asynccontextmanager
async def started(
    directory: Path,
    *,
    real: bool,
    nodes: Sequence[str] = NODE_NAMES,
    capacity: Mapping[str, str] | None = None,
    networks: bool = False,
    **options: Any,
) -> AsyncIterator[ControlPlane]:
    """With `options` of `real_api_servers`, where it is real; `capacity` adds to what each of these nodes has.

    With `networks` there is Multus.
    """
    specs = [NodeSpec(name, capacity=capacity or {}) for name in nodes]
    async with (
        _real(directory, **options) if real else _sandbox(directory) as kubeconfig,
        await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        multus = MultusStandIn(client) if networks else None
        await stack.enter_async_context(running(StandIns(client, specs, networks=multus, kubelets_only=real).run()))
        await install(client, BARE)
        await client.create(NAMESPACES, NAMESPACES.body({"name": NAMESPACE}))
        for name in nodes:
            await eventually(lambda name=name: get_or_none(client, NODES, name), _is_open)
        yield ControlPlane(kubeconfig, client, real)


def _is_open(node: JSON | None) -> bool:
    """Whether the node takes Pods."""
    return bool(node and node["status"].get("allocatable") and not node["spec"].get("taints"))
