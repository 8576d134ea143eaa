"""A cluster in which devices are allocated by hand, as the scheduler does, and attached by hand, as Multus does."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from app.claims.model import FIELD_MANAGER, NETWORK_STATUS, PUBLISHED
from app.claims.publishing.controller import Publisher, PublishingOptions
from app.claims.publishing.entries import Rules
from app.definitions import read_definitions
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import condition
from app.kube.credentials import load_credentials
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NETWORK_ATTACHMENTS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from app.kube.retry import every_item, get_or_none
from app.kube.transport import Session
from tests.support.chart import Server
from tests.support.running import at_work

JSON = dict[str, Any]
NAMESPACE, NODE = "default", "n1"
VF = "vf.example.com"
DRANET = "dra.net"
RESOURCE = "example.com/vf"


class ApplyingClient(KubeClient):
    """Counts the applies by what they are for; `before` may delay or fail one.

    An apply counts from when it is sent, since others may see what it writes before its answer is here. One that fails
    does not count. One that was cut, and may have been done or not, is in `unanswered` instead.
    """

    before: Callable[[str], Any] | None = None

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.session = session
        self.applied: Counter[str] = Counter()
        self.unanswered: set[str] = set()
        self.others = 0
        self._era = asyncio.Event()

    def cut(self) -> None:
        """End the watches that are open, as a connection that breaks."""
        self._era.set()
        self._era = asyncio.Event()

    async def watch(self, resource: Resource, **more: Any) -> AsyncGenerator[bytes]:  # type: ignore[override]  # it adds an end
        era = self._era
        async with contextlib.aclosing(super().watch(resource, **more)) as lines:
            async for line in lines:
                yield line
                if era.is_set():
                    return

    async def apply(self, resource: Resource, name: str, body: JSON, **more: Any) -> JSON:
        if self.before is not None:
            await self.before(name)
        self.applied[name] += 1
        try:
            return await super().apply(resource, name, body, **more)
        except BaseException as error:
            self.applied -= Counter([name])
            if not isinstance(error, ApiError):
                self.unanswered.add(name)
            raise

    async def get(self, resource: Resource, name: str, **more: Any) -> JSON:
        self.others += 1
        return await super().get(resource, name, **more)


EXTENDED = "p-extended-resources-x"
"""A claim that the scheduler makes for extended resources of Pod p."""


class ClaimsCluster:
    """No scheduler, driver or CNI plugin runs there."""

    def __init__(self, server: Server) -> None:
        self.server, self.admin = server, server.client

    async def prepare(self) -> None:
        for definition in read_definitions((NETWORK_ATTACHMENTS,)):
            await self.admin.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await self.server.served(NETWORK_ATTACHMENTS)

    async def client(self, kubeconfig: Path | None = None) -> ApplyingClient:
        path = kubeconfig or self.server.kubeconfig
        return ApplyingClient(Session(await load_credentials(kubeconfig=str(path))))

    @contextlib.asynccontextmanager
    async def controller(
        self, client: ApplyingClient | None = None, *, events: bool = False, ready: bool = True, **options: Any
    ) -> AsyncIterator[tuple[ApplyingClient, Kit]]:
        """With `events` it writes Events. Rules are given by their names."""
        names = Rules.__dataclass_fields__
        rules = Rules(**{name: options.pop(name) for name in list(options) if name in names})
        of_kit = {"resync": options.pop("resync", None), "workers": options.pop("workers", 16)}
        async with contextlib.AsyncExitStack() as stack:
            own = client or await stack.enter_async_context(await self.client())
            recorder = EventRecorder(lambda: self.admin, role="controller", instance="i") if events else None
            kit = Kit(own, events=recorder, **of_kit)
            self.publisher = Publisher(kit, PublishingOptions(rules=rules, **options))
            await stack.enter_async_context(at_work(kit, recorder, ready=ready))
            yield own, kit

    async def attachment(
        self, name: str = "net", subnet: str = "10.0.0.0/24", resource: str = RESOURCE, ipam: JSON | None = None
    ) -> None:
        config = {"type": "sriov", "ipam": ipam or {"type": "host-local", "subnet": subnet}}
        metadata = {"name": name, "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource}}
        body = NETWORK_ATTACHMENTS.body(metadata, spec={"config": json.dumps(config)})
        await self.admin.create(NETWORK_ATTACHMENTS, body, namespace=NAMESPACE)

    async def slice(self, *devices: str, driver: str = VF, node: str = NODE, generation: int = 1) -> None:
        """One slice, the pool of the node; device vfN has the PCI address 0000:03:00.N."""
        pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [_device(one) for one in devices]}
        body = RESOURCE_SLICES.body({"name": f"{node}-{driver}-{generation}"}, spec=spec)
        await self.admin.create(RESOURCE_SLICES, body)

    async def pod(
        self,
        name: str,
        *claims: str,
        networks: str = "net",
        template: bool = False,
        node: str = NODE,
        extended: str = "",
    ) -> JSON:
        """A Pod on the node with these claims, by name or, with `template`, by a template, or the extended claim."""
        refer = "resourceClaimTemplateName" if template else "resourceClaimName"
        amounts = {"requests": {RESOURCE: "2"}, "limits": {RESOURCE: "2"}} if extended else {}
        container = {"name": "c", "image": "i", "resources": amounts}
        spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
        spec["resourceClaims"] = [{"name": f"r{n}", refer: one} for n, one in enumerate(claims)]
        metadata = {"name": name, "annotations": {"k8s.v1.cni.cncf.io/networks": networks}}
        made = await self.admin.create(PODS, PODS.body(metadata, spec=spec), namespace=NAMESPACE)
        status: JSON = {}
        if template:
            made_for = [{"name": f"r{n}", "resourceClaimName": one} for n, one in enumerate(claims)]
            status["resourceClaimStatuses"] = made_for
        if extended:
            mapping = {"containerName": "c", "resourceName": RESOURCE, "requestName": _request(extended)}
            status["extendedResourceClaimStatus"] = {"resourceClaimName": extended, "requestMappings": [mapping]}
        if status:
            await self.say(name, **status)
        return made

    async def say(self, pod: str, **status: Any) -> None:
        body = {"status": status}
        await self.admin.patch(PODS, pod, body, patch_type="merge", namespace=NAMESPACE, subresource="status")

    async def attach(self, pod: str, *entries: JSON) -> None:
        """As Multus writes it, each time that the sandbox starts."""
        body = {"metadata": {"annotations": {NETWORK_STATUS: json.dumps(entries)}}}
        await self.admin.patch(PODS, pod, body, patch_type="merge", namespace=NAMESPACE, subresource="status")

    async def claim(
        self, name: str, pod: JSON | None = None, *devices: str, driver: str = VF, node: str = NODE
    ) -> JSON:
        """A claim for that many devices, allocated and reserved for the Pod as the scheduler does.

        Where its name begins with that of the Pod it was made for it.
        """
        request = {"name": _request(name), "exactly": {"deviceClassName": "vf", "count": max(len(devices), 1)}}
        metadata: JSON = {"name": name}
        if pod is not None and name.startswith(f"{pod['metadata']['name']}-"):
            owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
            metadata["ownerReferences"] = [owner | {key: pod["metadata"][key] for key in ("name", "uid")}]
        body = RESOURCE_CLAIMS.body(metadata, spec={"devices": {"requests": [request]}})
        made = await self.admin.create(RESOURCE_CLAIMS, body, namespace=NAMESPACE)
        return made if pod is None else await self.allocate(made, pod, *devices, driver=driver, node=node)

    async def allocate(self, claim: JSON, pod: JSON, *devices: str, driver: str = VF, node: str = NODE) -> JSON:
        request = _request(claim["metadata"]["name"])
        results = [{"request": request, "driver": driver, "pool": node, "device": one} for one in devices]
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
        status = {"allocation": {"devices": {"results": results}, "nodeSelector": selector}, "reservedFor": [_of(pod)]}
        return await self.put(claim | {"status": status})

    async def put(self, claim: JSON) -> JSON:
        """Replace the status, as a client that updates does."""
        name = claim["metadata"]["name"]
        return await self.admin.replace(RESOURCE_CLAIMS, name, claim, namespace=NAMESPACE, subresource="status")

    async def apply(
        self,
        name: str,
        entries: Sequence[JSON],
        *,
        manager: str = VF,
        force: bool = False,
        client: KubeClient | None = None,
    ) -> JSON:
        """As a driver that applies its entries."""
        body = RESOURCE_CLAIMS.body({"name": name, "namespace": NAMESPACE}, status={"devices": list(entries)})
        return await (client or self.admin).apply(
            RESOURCE_CLAIMS, name, body, namespace=NAMESPACE, field_manager=manager, force=force, subresource="status"
        )

    async def get(self, name: str) -> JSON:
        return await self.admin.get(RESOURCE_CLAIMS, name, namespace=NAMESPACE)

    async def entries(self, name: str) -> dict[str, JSON]:
        """The entries of a claim by device, without members that are empty; {} without a claim."""
        found = await get_or_none(self.admin, RESOURCE_CLAIMS, name, namespace=NAMESPACE) or {}
        entries = (found.get("status") or {}).get("devices") or ()
        return {one["device"]: {key: value for key, value in one.items() if value is not None} for one in entries}

    async def ips(self, name: str, device: str = "vf1") -> list[str]:
        entry = (await self.entries(name)).get(device) or {}
        return list((entry.get("networkData") or {}).get("ips") or ())

    async def events(self, reason: str) -> list[JSON]:
        pages = every_item(lambda token: self.admin.list_page(EVENTS, namespace=NAMESPACE, continue_token=token))
        return [one async for one in pages if one["reason"] == reason]

    async def managers(self, name: str) -> set[str]:
        return {one["manager"] for one in (await self.get(name))["metadata"]["managedFields"]}

    async def remove(self, resource: Resource, name: str) -> None:
        """At once, as after the grace."""
        namespace = NAMESPACE if resource.namespaced else None
        await self.admin.delete(resource, name, namespace=namespace, grace_period_seconds=0)

    def kubeconfig_of(self, account: str, *, node: str = "") -> Path:
        """A file by which one acts as a service account, with `node` by a token that is bound to it."""
        path = self.server.kubeconfig_of(NAMESPACE, account)
        if node:
            config = yaml.safe_load(path.read_text())
            config["users"][0]["user"]["as-user-extra"] = {"authentication.kubernetes.io/node-name": [node]}
            path.write_text(yaml.safe_dump(config))
        return path

    async def device_too_many(self) -> None:
        """Pod p asks for two devices by claim `EXTENDED`, and selects one network, of which there is data."""
        await self.attachment()
        await self.slice("vf0", "vf1")
        pod = await self.pod("p", extended=EXTENDED)
        await self.claim(EXTENDED, pod, "vf0", "vf1")
        await self.say("p", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
        await self.attach("p", attached("10.0.0.5", pci="0000:03:00.0"))
        data = {"interfaceName": "net1", "ips": ["10.0.0.5/24"]}
        await self.apply(EXTENDED, [entry("vf0", networkData=data)])


def entry(device: str = "vf1", *, driver: str = VF, node: str = NODE, **more: Any) -> JSON:
    """An entry of `status.devices`."""
    return {"driver": driver, "pool": node, "device": device, **more}


def attached(*ips: str, network: str = f"{NAMESPACE}/net", interface: str = "net1", pci: str = "0000:03:00.1") -> JSON:
    """An entry of the network status."""
    found: JSON = {"name": network, "interface": interface, "ips": list(ips), "mac": "02:00:00:00:00:01", "dns": {}}
    info = {"type": "pci", "version": "1.1.0", "pci": {"pci-address": pci}}
    return found | ({"device-info": info} if pci else {})


def told(entry: JSON) -> JSON:
    """Our condition on an entry."""
    return condition(entry, PUBLISHED)


def _request(claim: str) -> str:
    """The name of the request of a claim; in one for extended resources as the scheduler names it."""
    return "container-0-request-0" if "-extended-resources-" in claim else "r"


def _device(name: str) -> JSON:
    address = f"0000:03:00.{name.removeprefix('vf')}"
    attributes = {"k8s.cni.cncf.io/deviceID": address, "k8s.cni.cncf.io/resourceName": RESOURCE}
    return {"name": name, "attributes": {key: {"string": value} for key, value in attributes.items()}}


def _of(pod: JSON) -> JSON:
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


OURS = FIELD_MANAGER
