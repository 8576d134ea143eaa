"""A cluster in which Pods get networks and devices, with the processes of Berth that serve them."""

from __future__ import annotations

import base64
import contextlib
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import yaml

from app.claims.model import NETWORK_STATUS
from app.claims.network_status import Attached, attached_to
from app.devtools.claims.driver import DriverStandIn, Mode
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, PODS, RESOURCE_CLAIMS, VALIDATING_WEBHOOKS
from app.permissions import permissions_of
from app.registration import Terms, further_webhooks, pods_to
from tests.support.control_plane import NAMESPACE, NODE_NAMES, ControlPlane
from tests.support.networked_pods import DRIVER, RESOURCE, SUBNETS, prepare
from tests.support.processes import Berth
from tests.support.rbac import allow
from tests.support.running import running
from tests.support.waiting import eventually
from tests.support.webhook_process import Pki

JSON = dict[str, Any]
OWN = "berth-system"
CONTROLLERS = ("claims", "claim-templates", "network-services")


@dataclass
class NetworkedPods:
    """Pods of a cluster, their networks and their claims."""

    plane: ControlPlane

    @property
    def client(self) -> KubeClient:
        return self.plane.client

    async def create(self, body: JSON) -> None:
        await self.client.create(PODS, body, namespace=NAMESPACE)

    async def pod(self, name: str) -> JSON:
        return await self.client.get(PODS, name, namespace=NAMESPACE)

    async def entries(self, name: str) -> list[JSON]:
        """Those of `status.devices` in the one claim of the Pod; none as long as it has no claim."""
        pod = await self.pod(name)
        status = pod["status"]
        claims = [one.get("resourceClaimName") for one in pod["spec"].get("resourceClaims") or ()]
        claims += [one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()]
        claims += [(status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")]
        for claim in filter(None, claims):
            found = await self.client.get(RESOURCE_CLAIMS, claim, namespace=NAMESPACE)
            return list((found.get("status") or {}).get("devices") or ())
        return []

    async def attached(self, name: str, *, other_than: Attached | None = None) -> Attached:
        """What Multus has attached to the Pod beside the network of the cluster."""

        async def found() -> Attached | None:
            text = (await self.pod(name))["metadata"].get("annotations", {}).get(NETWORK_STATUS, "[]")
            return next((one for one in attached_to(text) if not one.default and one != other_than), None)

        one = await eventually(found)
        assert one is not None
        return one

    async def restart_sandbox(self, name: str) -> None:
        """The Pod gets other addresses."""
        change = {"metadata": {"annotations": {NETWORK_STATUS: None}}}
        await self.client.patch(PODS, name, change, patch_type="merge", namespace=NAMESPACE)

    async def published(self, name: str, attached: Attached) -> JSON:
        """The entry of the Pod's device, as soon as its network data is what Multus has attached."""
        length = ip_network(SUBNETS[attached.name.removeprefix(f"{NAMESPACE}/")]).prefixlen
        wanted = {
            "interfaceName": attached.interface,
            "hardwareAddress": attached.mac,
            "ips": [f"{ip}/{length}" for ip in attached.ips],
        }
        found = await eventually(
            lambda: self.entries(name), lambda entries: [one.get("networkData") for one in entries] == [wanted]
        )
        return found[0]


@dataclass
class NetworkStage(NetworkedPods):
    """`controller` is the process of the controllers; `driver` is a stand-in."""

    driver: DriverStandIn
    controller: Berth


@contextlib.asynccontextmanager
async def network_stage(plane: ControlPlane, folder: Path, mode: Mode) -> AsyncIterator[NetworkStage]:
    """Everything runs when it yields. The controllers act with the permissions of their role alone."""
    client = plane.client
    await prepare(client, NAMESPACE)
    driver = DriverStandIn(client, DRIVER, mode, NODE_NAMES, resource=RESOURCE)
    await driver.publish_slices()
    await client.create(NAMESPACES, NAMESPACES.body({"name": OWN}))
    async with running(driver.run()), contextlib.AsyncExitStack() as stack:
        controller = await start_controllers(stack, plane, folder)
        await start_webhook(stack, plane, folder)
        yield NetworkStage(plane, driver, controller)
        assert controller.returncode is None, controller.lines[-20:]


async def start_controllers(stack: contextlib.AsyncExitStack, plane: ControlPlane, folder: Path) -> Berth:
    """The controllers for networks and claims, with the permissions of their role alone."""
    kubeconfig = await _account(plane, folder, "berth-controller")
    controllers = f"--controllers={','.join(CONTROLLERS)}"
    return await start_role(stack, "controller", f"--kubeconfig={kubeconfig}", controllers, "--no-leader-elect")


async def _account(plane: ControlPlane, folder: Path, name: str) -> Path:
    """A file by which one acts as the service account of the controllers."""
    permissions = permissions_of("controller", controllers=CONTROLLERS)
    user = f"system:serviceaccount:{OWN}:{name}"
    await allow(plane.client, user, permissions, role=name, release=OWN)
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = user
    path = folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def start_webhook(stack: contextlib.AsyncExitStack, plane: ControlPlane, folder: Path, *flags: str) -> None:
    """Berth's webhook for networks and claims, with further flags; the API server calls it."""
    pki = Pki(folder / "pki")
    files = (f"--tls-cert-file={pki.certificate}", f"--tls-private-key-file={pki.key}")
    process = await start_role(
        stack, "webhook", f"--kubeconfig={plane.kubeconfig}", "--port=0", "--claims", "--insecure", *files, *flags
    )
    event = process.event("listening")
    assert event is not None

    def called(path: str) -> JSON:
        return {"url": event["reviews"] + path, "caBundle": base64.b64encode(pki.authority.certificate_pem).decode()}

    mutating = pods_to(called("/mutate"), name="berth", webhook="mutate.berth.dev", terms=Terms())
    entry = mutating["webhooks"][0] | {"clientConfig": called("/validate")}
    entry.pop("reinvocationPolicy")
    exempt = Terms().exempt
    validating = [
        one for kind in ("claim-pods", "claim-status") for one in further_webhooks(kind, entry, exempt=exempt)
    ]
    await plane.client.create(MUTATING_WEBHOOKS, mutating)
    await plane.client.create(VALIDATING_WEBHOOKS, VALIDATING_WEBHOOKS.body({"name": "berth"}, webhooks=validating))


async def start_role(stack: contextlib.AsyncExitStack, role: str, *flags: str) -> Berth:
    """A process of Berth with a health server, which is ready."""
    process = Berth(role, "--bind-address=127.0.0.1", "--health-check-port=0", f"--namespace={OWN}", *flags)
    stack.push_async_callback(process.end, signal.SIGKILL)
    await process.until_ready()
    return process
