"""A cluster with one node and Berth's webhook: a real node, or the stand-ins for all of its parts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.claims.model import NETWORK_STATUS
from app.devtools.claims.multus import MultusStandIn
from app.devtools.clusters.definitions import BARE, RMD, install
from app.devtools.clusters.rmd import RmdHosts, rmd_hosts
from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.standins.kubelet import NodeSpec
from app.devtools.sandbox.standins.standins import StandIns
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, NETWORK_ATTACHMENTS, NODES, PODS, SERVICE_ACCOUNTS
from app.kube.retry import get_or_none
from app.kube.transport import connect
from app.networks.model import NETWORKS
from app.networks.model import RESOURCE_NAME as RESOURCE_OF_ATTACHMENT
from tests.support.control_plane import NAMESPACE, ControlPlane, in_thread
from tests.support.network_stage import OWN, NetworkedPods, start_webhook
from tests.support.node_files import IMAGE
from tests.support.real_apiserver import real_api_servers
from tests.support.real_control_plane import real_control_plane
from tests.support.real_node import NODE, RealNode, needs_node, real_node
from tests.support.running import running
from tests.support.waiting import PATIENCE, eventually

JSON = dict[str, Any]
REAL = pytest.param("real", marks=needs_node())
SIDES = ["stand-in", REAL]
RESOURCE = "example.com/vf"
VF, BR = "vf", "br"
"""Attachments: of devices of `RESOURCE`, and of a bridge, which takes addresses that a Pod asks for."""
SUBNETS = {VF: "10.78.0.0/24", BR: "10.79.0.0/24"}


@dataclass(frozen=True)
class NodeStage:
    """`folder` has the sockets of kubelet; `node` is the real one, and `hosts` has its stand-in."""

    plane: ControlPlane
    folder: Path
    node: RealNode | None = None
    hosts: RmdHosts | None = None

    @property
    def client(self) -> KubeClient:
        return self.plane.client

    async def attach(self, name: str, namespace: str = NAMESPACE, **config: Any) -> None:
        """Create the attachment, with further fields of its configuration."""
        ipam = {"type": "host-local", "subnet": SUBNETS[name]}
        kind = {"type": "vf"} if name == VF else {"type": "bridge", "bridge": f"{namespace[:4]}0"}
        resources = {RESOURCE_OF_ATTACHMENT: RESOURCE} if name == VF else {}
        content = json.dumps({"cniVersion": "1.0.0", "name": name, **kind, "ipam": ipam, **config})
        body = NETWORK_ATTACHMENTS.body({"name": name, "annotations": resources}, spec={"config": content})
        await self.client.create(NETWORK_ATTACHMENTS, body, namespace=namespace)

    async def create(self, body: JSON, namespace: str = NAMESPACE) -> JSON:
        """The Pod as it is stored. Raises ApiError where Berth or the API server refuses it."""
        return await self.client.create(PODS, body, namespace=namespace)

    async def pod(self, name: str, namespace: str = NAMESPACE) -> JSON:
        return await self.client.get(PODS, name, namespace=namespace)

    async def runs(self, name: str, namespace: str = NAMESPACE) -> JSON:
        """The Pod as soon as it runs."""
        return await eventually(lambda: self.pod(name, namespace), lambda up: up["status"].get("phase") == "Running")

    async def gone(self, name: str, namespace: str = NAMESPACE) -> None:
        """Delete the Pod; returns when the node has ended it."""
        await self.client.delete(PODS, name, namespace=namespace)
        await eventually(lambda: get_or_none(self.client, PODS, name, namespace=namespace), lambda pod: pod is None)

    async def offers(self, resource: str, amount: int = 0) -> None:
        """Returns when the node offers so many; without an amount, any."""

        async def look() -> str:
            status = (await self.client.get(NODES, NODE))["status"]
            return str((status.get("allocatable") or {}).get(resource, "0"))

        await eventually(look, lambda offered: offered == str(amount) if amount else offered != "0")

    async def kill_sandbox(self, name: str) -> None:
        """The node makes another one, with other addresses."""
        if self.node is not None:
            await self.node.kill_sandbox(await self.pod(name))
        else:
            await NetworkedPods(self.plane).restart_sandbox(name)

    async def restart_kubelet(self) -> None:
        """Its Pods run on."""
        if self.node is not None:
            await asyncio.to_thread(self.node.stop)
            await asyncio.to_thread(self.node.start)
        elif self.hosts is not None:
            await self.hosts.kubelets[NODE].restart()


def networks_of(pod: JSON) -> list[JSON]:
    """What Multus says of the networks of a Pod."""
    entries: list[JSON] = json.loads(pod["metadata"]["annotations"][NETWORK_STATUS])
    return entries


def container(name: str = "main", resources: JSON | None = None) -> JSON:
    """Requests are the limits."""
    return {"name": name, "image": IMAGE, "resources": {"limits": resources} if resources else {}}


def pod(name: str, *containers: JSON, networks: str | None = None, **spec: Any) -> JSON:
    """It ends within a second."""
    annotations = {} if networks is None else {NETWORKS: networks}
    metadata = {"name": name, "labels": {"app": name}, "annotations": annotations}
    own = {"containers": list(containers) or [container()], "terminationGracePeriodSeconds": 1}
    return PODS.body(metadata, spec=own | spec)


@contextlib.asynccontextmanager
async def node_stage(folder: Path, *, real: bool) -> AsyncIterator[NodeStage]:
    """Everything runs when it yields."""
    async with _real(folder) if real else _stand_in(folder) as stage, contextlib.AsyncExitStack() as stack:
        await install(stage.client, (*BARE, *RMD))
        for name in (NAMESPACE, OWN):
            await stage.client.create(NAMESPACES, NAMESPACES.body({"name": name}))
            # A real API server refuses Pods without an account.
            await eventually(partial(get_or_none, stage.client, SERVICE_ACCOUNTS, "default", namespace=name))
        await start_webhook(stack, stage.plane, folder, "--injectHugepageDownApi")
        yield stage


@contextlib.asynccontextmanager
async def _real(folder: Path) -> AsyncIterator[NodeStage]:
    assets = Path(os.environ["KUBEBUILDER_ASSETS"])
    async with contextlib.AsyncExitStack() as stack:
        servers = await in_thread(stack, real_api_servers(assets, folder, ["cluster"], accounts=True))
        await in_thread(stack, real_control_plane(assets, folder / "cluster", heartbeats=True))
        client = await stack.enter_async_context(await connect(kubeconfig=str(servers["cluster"]), deadline=PATIENCE))
        node = await stack.enter_async_context(real_node(client, folder / "cluster"))
        yield NodeStage(ControlPlane(servers["cluster"], client, real=True), node.folder, node=node)


@contextlib.asynccontextmanager
async def _stand_in(folder: Path) -> AsyncIterator[NodeStage]:
    kubeconfig = folder / "admin.kubeconfig"
    async with Cluster("node") as cluster:
        kubeconfig.write_text(cluster.kubeconfig())
        async with (
            await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as client,
            rmd_hosts(client, [NODE]) as hosts,
        ):
            multus = MultusStandIn(client)
            nodes = StandIns(client, [NodeSpec(NODE)], elsewhere=hosts.runs, resources=hosts.kubelets, networks=multus)
            async with running(hosts.run()), running(nodes.run()):
                yield NodeStage(ControlPlane(kubeconfig, client, real=False), hosts.folders[NODE], hosts=hosts)
