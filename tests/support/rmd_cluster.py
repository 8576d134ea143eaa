"""A cluster with RMD: the sandbox's API server over HTTP, stand-in daemons on sockets, the controller on a loop's clock."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest_asyncio

from app.devtools.rmd.access import Tls
from app.devtools.rmd.bits import mask_of
from app.devtools.rmd.classes import INFRA, OS
from app.devtools.rmd.faults import Faults, Trouble
from app.devtools.rmd.machine import Cache, Machine
from app.devtools.rmd.server import Request, serve
from app.devtools.rmd.workloads import Daemon
from app.devtools.sandbox.server import Cluster
from app.kube.conditions import condition
from app.kube.documents import read_objects
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES, PODS, Resource
from app.kube.transport import connect
from app.rmd.controller.controller import RmdOptions, reserve
from app.rmd.model import RMD_CONFIGS, RMD_NODE_STATES, RMD_WORKLOADS, node_state_name
from tests.support.running import at_work
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import CountingClient, Infra

JSON = dict[str, Any]
NAMESPACE, SYSTEM, CERTIFICATE = "default", "berth-system", "berth-rmd-client"
CRDS = Path(__file__).parents[2] / "app/rmd/crds"
TWO_SOCKETS = Machine(caches=(Cache(0, "0-15"), Cache(1, "16-31", 1, 1)))
CACHE = {"rdt": {"cache": {"max": 2, "min": 2}}}


class StandIn:
    """A daemon that a node of `RmdCluster` serves, with what it was asked."""

    def __init__(self, machine: Machine = TWO_SOCKETS, faults: Faults | None = None) -> None:
        self.daemon = Daemon(machine, faults)
        self.troubles: list[Trouble] = []
        self.asked: Sequence[Request] = ()


class RmdCluster(Infra):
    """No kubelet runs there: nodes and the Pods of daemons are written by `node`."""

    @contextlib.asynccontextmanager
    async def controller(
        self, client: CountingClient | None = None, *, events: bool = False, **options: Any
    ) -> AsyncIterator[CountingClient]:
        """With `events` it writes Events."""
        chosen = {"namespace": NAMESPACE, "secret": CERTIFICATE, "own": SYSTEM} | options
        async with self.connected(client) as own:
            recorder = EventRecorder(lambda: own, role="controller", instance="i") if events else None
            kit = Kit(own, events=recorder, resync=chosen.pop("resync", None), workers=chosen.pop("workers", 16))
            reserve(kit, options=RmdOptions(**chosen), now=self.now)
            async with at_work(kit, recorder):
                yield own

    @contextlib.asynccontextmanager
    async def node(self, name: str, stand_in: StandIn, *, tls: Tls | None = None, **labels: str) -> AsyncIterator[None]:
        """A node with its daemon, which stops at the end; the objects stay."""
        async with serve(stand_in.daemon, tls=tls) as served:
            served.troubles, stand_in.asked = stand_in.troubles, served.requests
            await self.add_node(name, **labels)
            await self.add_daemon(name, int(served.url.rpartition(":")[2]), "https" if tls else "http")
            yield

    async def add_node(self, name: str, **labels: str) -> None:
        await self.admin.create(NODES, NODES.body({"name": name, "labels": labels}))

    async def add_daemon(self, node: str, port: int, scheme: str = "http") -> None:
        container = {"name": "rmd", "image": "rmd", "ports": [{"containerPort": port, "name": scheme}]}
        metadata = {"name": f"rmd-{node}", "labels": {"name": "rmd-pod"}}
        spec = {"nodeName": node, "containers": [container]}
        await self.admin.create(PODS, PODS.body(metadata, spec=spec), namespace=NAMESPACE)
        status = {"status": {"podIP": "127.0.0.1", "phase": "Running"}}
        await self.admin.patch(
            PODS, f"rmd-{node}", status, patch_type="merge", namespace=NAMESPACE, subresource="status"
        )

    async def reserve(self, name: str, *nodes: str, namespace: str = NAMESPACE, **spec: Any) -> None:
        """Create an RmdWorkload; without other words it asks for two guaranteed ways for cores 0 and 1."""
        said = {"coreIds": ["0-1"], "nodes": list(nodes), **(spec if {"rdt", "policy"} & spec.keys() else CACHE | spec)}
        await self.admin.create(RMD_WORKLOADS, RMD_WORKLOADS.body({"name": name}, spec=said), namespace=namespace)

    async def change(self, name: str, namespace: str = NAMESPACE, **spec: Any) -> None:
        await self.patched(RMD_WORKLOADS, name, {"spec": spec}, namespace=namespace)

    async def patched(self, resource: Resource, name: str, body: JSON, namespace: str = NAMESPACE) -> None:
        await self.admin.patch(resource, name, body, patch_type="merge", namespace=namespace)

    async def show(self, node: str) -> None:
        """Create the RmdNodeState of a node."""
        body = RMD_NODE_STATES.body({"name": node_state_name(node)}, spec={"node": node})
        await self.admin.create(RMD_NODE_STATES, body, namespace=NAMESPACE)

    async def configure(self, **labels: str) -> None:
        body = RMD_CONFIGS.body({"name": "rmdconfig"}, spec={"rmdNodeSelector": labels})
        await self.admin.create(RMD_CONFIGS, body, namespace=NAMESPACE)

    def object(self, name: str, namespace: str = NAMESPACE) -> JSON | None:
        found = self.stored(RMD_WORKLOADS, namespace)
        return next((one for one in found if one["metadata"]["name"] == name), None)

    def states(self, name: str, namespace: str = NAMESPACE) -> JSON:
        found: JSON = (self.object(name, namespace) or {}).get("status") or {}
        return dict(found.get("workloadStates") or {})

    def ready(self, name: str, namespace: str = NAMESPACE) -> JSON:
        return condition((self.object(name, namespace) or {}).get("status") or {}, "Ready")

    async def says(self, name: str, reason: str, namespace: str = NAMESPACE) -> JSON:
        """The condition Ready, as soon as it has this reason for the spec as it is."""

        def current(found: JSON) -> bool:
            of = (self.object(name, namespace) or {"metadata": {}})["metadata"].get("generation")
            return found.get("reason") == reason and found.get("observedGeneration") == of

        return await eventually(lambda: self.ready(name, namespace), current)

    async def gone(self, name: str, namespace: str = NAMESPACE) -> None:
        await eventually(lambda: self.object(name, namespace) is None)


def held(stand_in: StandIn) -> dict[str, tuple[str, ...]]:
    """The cores of what a daemon holds, by uuid; its database and its classes of service have to say the same."""
    found = stand_in.daemon.workloads()
    given = [one.cpus for name, one in stand_in.daemon.classes.present().items() if name not in (OS, INFRA)]
    assert sum(given) == sum(mask_of(",".join(one.core_ids)) for one in found)
    assert len({one.uuid for one in found}) == len(found), "a reservation stands twice"
    return {one.uuid: tuple(one.core_ids) for one in found}


def sent(stand_in: StandIn, *methods: str) -> list[str]:
    return [one.method for one in stand_in.asked if one.method in (methods or ("POST", "PATCH", "DELETE"))]


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[RmdCluster]:
    async with Cluster("tenant1") as served:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(served.kubeconfig())
        async with await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as admin:
            for name in (SYSTEM, "team-a", "team-b"):
                await admin.create(NAMESPACES, NAMESPACES.body({"name": name}))
            for path in sorted(CRDS.glob("*.yaml")):
                for definition in read_objects(path):
                    await admin.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            yield RmdCluster(served, kubeconfig, admin)
