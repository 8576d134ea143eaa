"""A cluster with Services on another network: the sandbox's API server, or a real one, and the controller.

No scheduler, kubelet, Multus or garbage collector runs there: what they write is written by `NetworkCluster`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.devtools.sandbox.server import Cluster
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.credentials import load_credentials
from app.kube.documents import read_objects
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    ENDPOINT_SLICES,
    EVENTS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    Resource,
)
from app.kube.retry import every_item
from app.kube.transport import Session, connect
from app.services.caches import ServiceCaches
from app.services.controller import network_services
from tests.support.paths import ROOT
from tests.support.running import at_work
from tests.support.sandbox import Real
from tests.support.waiting import PATIENCE, eventually
from tests.support.workloads import CountingClient

JSON = dict[str, Any]
CRD = ROOT / "app/networks/crds/network-attachment-definitions.yaml"
SLICE_LABEL = "endpointslice.kubernetes.io/managed-by"
Issue = Callable[[str, tuple[str, ...]], Path]
"""Makes a kubeconfig for a user in these groups."""
DRIVER = "vf.example.com"
SUBNETS = ("192.168.0.0/16", "10.0.0.0/8", "fd00::/8", "2001:db8::/32")
"""Of each attachment."""
_NUMBERS = itertools.count(1)
_ASSETS = os.environ.get("KUBEBUILDER_ASSETS")


class NetworkCluster:
    """`namespace` is a fresh one, with the attachment `vlan`; the nodes n1 and n2 are in the zones a and b."""

    def __init__(self, issue: Issue, admin: KubeClient, namespace: str) -> None:
        self._issue, self.admin, self.namespace = issue, admin, namespace

    @contextlib.asynccontextmanager
    async def client(self, user: str = "") -> AsyncIterator[CountingClient]:
        """Of an administrator, or of this user."""
        kubeconfig = self._issue(user, ()) if user else self._issue("admin", ("system:masters",))
        async with CountingClient(Session(await load_credentials(kubeconfig=str(kubeconfig)))) as made:
            yield made

    @contextlib.asynccontextmanager
    async def controller(self, user: str = "") -> AsyncIterator[CountingClient]:
        """The controller at work, with Events, as an administrator or this user; the result is its client."""
        async with self.client(user) as client:
            recorder = EventRecorder(lambda: client, role="controller", instance="i")
            kit = Kit(client, resync=None, events=recorder)
            network_services(kit, ServiceCaches(kit))
            async with at_work(kit, recorder):
                yield client

    async def attachment(self, name: str, resource: str = "") -> None:
        annotations = {"k8s.v1.cni.cncf.io/resourceName": resource} if resource else {}
        metadata = {"name": name, "annotations": annotations}
        ranges = [[{"subnet": subnet}] for subnet in SUBNETS]
        config = json.dumps({"type": "macvlan", "ipam": {"type": "host-local", "ranges": ranges}})
        await self.create(NETWORK_ATTACHMENTS, NETWORK_ATTACHMENTS.body(metadata, spec={"config": config}))

    async def service(
        self, name: str, *, network: str | None = "vlan", selector: str | None = "app=x", **spec: Any
    ) -> JSON:
        """A headless Service for IPv4 with the port 80, unless `spec` says something else."""
        said = {"berth.dev/network": network, "berth.dev/selector": selector}
        annotations = {key: value for key, value in said.items() if value is not None}
        one = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
        body = {"clusterIP": "None", **one, "ports": [{"port": 80, "protocol": "TCP"}], **spec}
        metadata = {"name": name, "labels": {"team": "a"}, "annotations": annotations}
        return await self.create(SERVICES, SERVICES.body(metadata, spec=body))

    async def annotate(self, name: str, **annotations: str | None) -> None:
        said = {f"berth.dev/{key}": value for key, value in annotations.items()}
        await self.patch(SERVICES, name, {"metadata": {"annotations": said}})

    async def pod(
        self,
        name: str,
        *ips: str,
        node: str = "n1",
        ready: bool = True,
        labels: dict[str, str] | None = None,
        network: str = "vlan",
        **spec: Any,
    ) -> None:
        """A Pod with these addresses on the network, as Multus shows them; without any it has no network status."""
        annotations = {"k8s.v1.cni.cncf.io/network-status": self.status_of(*ips, network=network)} if ips else {}
        metadata = {"name": name, "labels": labels or {"app": "x"}, "annotations": annotations}
        containers = [{"name": "c", "image": "c", "ports": [{"name": "web", "containerPort": 8080}]}]
        await self.create(PODS, PODS.body(metadata, spec={"nodeName": node, "containers": containers, **spec}))
        await self.set_ready(name, ready=ready)

    def status_of(self, *ips: str, network: str = "vlan") -> str:
        cluster = {"name": "cbr0", "interface": "eth0", "ips": ["10.244.0.9"], "default": True}
        key = network if "/" in network else f"{self.namespace}/{network}"
        return json.dumps([cluster, {"name": key, "interface": "net1", "ips": list(ips), "mac": "02:00:00:00:00:01"}])

    async def restart(self, name: str, *ips: str) -> None:
        """The sandbox of the Pod is made again, with other addresses."""
        annotations = {"k8s.v1.cni.cncf.io/network-status": self.status_of(*ips)}
        await self.patch(PODS, name, {"metadata": {"annotations": annotations}})

    async def set_ready(self, name: str, *, ready: bool) -> None:
        conditions = [{"type": "Ready", "status": str(ready)}]
        status = {"phase": "Running", "podIP": "10.244.0.9", "conditions": conditions}
        await self.patch(PODS, name, {"status": status}, subresource="status")

    async def remove_pod(self, name: str) -> None:
        """At once, as kubelet confirms it."""
        await self.admin.delete(PODS, name, namespace=self.namespace, grace_period_seconds=0)

    async def claimed_pod(
        self, name: str, device: str, *ips: str, networks: str = "vlan", driver: str = DRIVER, **config: str
    ) -> None:
        """A Pod with a claim of its own for a device of n1, whose driver has published these addresses.

        `config` are the opaque parameters for the driver.
        """
        metadata = {"name": name, "labels": {"app": "x"}, "annotations": {"k8s.v1.cni.cncf.io/networks": networks}}
        container = {"name": "c", "image": "c", "resources": {"claims": [{"name": "nic"}]}}
        claims = [{"name": "nic", "resourceClaimName": name}]
        spec = {"nodeName": "n1", "containers": [container], "resourceClaims": claims}
        pod = await self.create(PODS, PODS.body(metadata, spec=spec))
        await self.set_ready(name, ready=True)
        request = {"name": "nic", "exactly": {"deviceClassName": "vf.example.com"}}
        body = RESOURCE_CLAIMS.body({"name": name}, spec={"devices": {"requests": [request]}})
        await self.create(RESOURCE_CLAIMS, body)
        key = {"driver": driver, "pool": "n1", "device": device}
        opaque = {"driver": driver, "parameters": {"kind": "VfConfig", **config}}
        allocated = {
            "results": [{**key, "request": "nic"}],
            "config": [{"source": "FromClaim", "requests": ["nic"], "opaque": opaque}] if config else [],
        }
        status = {
            "allocation": {"devices": allocated},
            "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
            "devices": [{**key, "networkData": {"interfaceName": "net1", "ips": list(ips)}}],
        }
        await self.patch(RESOURCE_CLAIMS, name, {"status": status}, subresource="status")

    async def devices(self, generation: int, **resources: str) -> None:
        """The ResourceSlice of n1: the resource of each device, as Multus asks for it."""
        devices = [
            {"name": name, "attributes": {"k8s.cni.cncf.io/resourceName": {"string": resource}}}
            for name, resource in resources.items()
        ]
        pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices}
        await self.admin.apply(RESOURCE_SLICES, "n1", RESOURCE_SLICES.body({"name": "n1"}, spec=spec))

    async def create(self, resource: Resource, body: JSON) -> JSON:
        return await self.admin.create(resource, body, namespace=self.namespace)

    async def patch(self, resource: Resource, name: str, body: JSON, **more: Any) -> None:
        await self.admin.patch(resource, name, body, patch_type="merge", namespace=self.namespace, **more)

    async def stored(self, resource: Resource, selector: str = "") -> list[JSON]:
        """What the API server holds in the namespace."""
        found = every_item(
            lambda token: self.admin.list_page(
                resource, namespace=self.namespace, label_selector=selector, continue_token=token
            )
        )
        return [one async for one in found]

    async def slices(self, service: str) -> list[JSON]:
        """Ours."""
        return await self.stored(ENDPOINT_SLICES, f"{SLICE_LABEL}=berth,kubernetes.io/service-name={service}")

    async def shown(self, service: str) -> dict[str, bool]:
        """Whether each address of a Service is ready. None stands in two slices."""
        found = [one for each in await self.slices(service) for one in each["endpoints"] or ()]
        addresses = [address for one in found for address in one["addresses"]]
        assert len(addresses) == len(set(addresses)), "an address stands twice"
        return {address: one["conditions"]["ready"] for one in found for address in one["addresses"]}

    async def shows(self, service: str, **addresses: bool) -> None:
        """Waits until the Service has these addresses; `_` stands for a dot."""
        wanted = {key.strip("_").replace("_", "."): ready for key, ready in addresses.items()}
        await eventually(lambda: self.shown(service), lambda found: found == wanted)

    async def reasons(self, service: str) -> dict[str, str]:
        """The messages of Events on a Service, by reason."""
        found = await self.stored(EVENTS)
        return {one["reason"]: one["message"] for one in found if one["involvedObject"].get("name") == service}

    async def says(self, service: str, reason: str) -> str:
        return (await eventually(lambda: self.reasons(service), lambda found: reason in found))[reason]

    async def clean(self) -> None:
        """Other tests on the same API server have controllers too."""
        for resource in (SERVICES, ENDPOINT_SLICES):
            for one in await self.stored(resource):
                await self.admin.delete(resource, one["metadata"]["name"], namespace=self.namespace)


@contextlib.asynccontextmanager
async def _prepared(issue: Issue) -> AsyncIterator[NetworkCluster]:
    namespace = f"network-{next(_NUMBERS)}"
    kubeconfig = str(issue("admin", ("system:masters",)))
    async with await connect(kubeconfig=kubeconfig, deadline=PATIENCE) as admin:
        await admin.create(NAMESPACES, NAMESPACES.body({"name": namespace}))
        for definition in read_objects(CRD):
            await admin.apply(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"], definition)
        for name, zone in {"n1": "a", "n2": "b"}.items():
            labels = {"topology.kubernetes.io/zone": zone}
            await admin.apply(NODES, name, NODES.body({"name": name, "labels": labels}))
        made = NetworkCluster(issue, admin, namespace)
        await eventually(lambda: _accepted(made))
        yield made
        await made.clean()


async def _accepted(cluster: NetworkCluster) -> bool:
    """A real API server takes up definitions a moment after they were written."""
    try:
        await cluster.attachment("vlan")
    except ApiError:
        return False
    return True


@pytest_asyncio.fixture(
    name="network_cluster",
    params=["sandbox", *([pytest.param("real", marks=pytest.mark.conformance)] if _ASSETS else [])],
)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[NetworkCluster]:
    """On the sandbox's API server and, where `KUBEBUILDER_ASSETS` names its folder, on a real one."""
    if request.param == "real":
        async with _prepared(Real(request.getfixturevalue("real_server"), tmp_path).kubeconfig) as made:
            yield made
        return
    async with Cluster("tenant1") as served:

        def issue(user: str, groups: tuple[str, ...]) -> Path:
            path = tmp_path / f"{user}.kubeconfig"
            path.write_text(served.kubeconfig(user, groups))
            return path

        async with _prepared(issue) as made:
            yield made
