"""An infra cluster and the cluster of a tenant with hundreds of nodes, whose Pods KWOK runs, and Berth's processes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from app.devtools.clusters.definitions import INFRA, TENANT, install
from app.devtools.clusters.registering import register
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.kube.transport import connect
from app.placement.model import HOST_LABEL
from app.workloads.model import SYSTEM_NAMESPACE
from tests.support.control_plane import in_thread
from tests.support.many_nodes import add_nodes, node
from tests.support.networked_pods import RESOURCE
from tests.support.ports import lasting_port
from tests.support.processes import Role
from tests.support.real_apiserver import real_api_servers
from tests.support.real_control_plane import real_control_plane
from tests.support.real_operators import real_kwok
from tests.support.staging import enrolled, tls_flags
from tests.support.waiting import PATIENCE
from tests.support.webhook_process import Pki

HOSTS = tuple(f"host-{number:03}" for number in range(100))
"""The nodes of the tenant's cluster; each has a DPU, which is a node of the infra cluster."""
FREE_DPUS = 20
"""The DPUs of hosts that are no tenant's."""
DEVICES = 20
"""Of each host."""
_SIDES = ("infra", "tenant")


@dataclass(frozen=True)
class Clusters:
    """Administrators' clients, and the processes of Berth by name."""

    infra: KubeClient
    tenant: KubeClient
    roles: dict[str, Role]


@contextlib.asynccontextmanager
async def many_pods(folder: Path) -> AsyncIterator[Clusters]:
    """Everything runs when it yields."""
    assets = Path(os.environ["KUBEBUILDER_ASSETS"])
    async with contextlib.AsyncExitStack() as stack:
        kubeconfigs = await in_thread(stack, real_api_servers(assets, folder, _SIDES))
        clients = {}
        for side, kubeconfig in kubeconfigs.items():
            clients[side] = await stack.enter_async_context(
                await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE)
            )
            await in_thread(stack, real_control_plane(assets, folder / side))
            await stack.enter_async_context(real_kwok(clients[side], kubeconfig, folder / side))
        await _furnish(clients["infra"], clients["tenant"], folder)
        ports = {side: lasting_port() for side in _SIDES}
        roles = _roles(kubeconfigs, folder, ports)
        for role in roles.values():
            stack.push_async_callback(role.kill)
            await role.start()
        for side in _SIDES:
            await _register(clients[side], folder / f"pki-{side}", port=ports[side], infra=side == "infra")
        yield Clusters(clients["infra"], clients["tenant"], roles)


async def _furnish(infra: KubeClient, tenant: KubeClient, folder: Path) -> None:
    """Definitions, nodes, and the tenant with all hosts."""
    await install(infra, INFRA)
    await install(tenant, TENANT)
    await tenant.create(NAMESPACES, NAMESPACES.body({"name": SYSTEM_NAMESPACE}))
    await enrolled(infra, folder, hosts=HOSTS)
    hosts = [*HOSTS, *(f"free-{number}" for number in range(FREE_DPUS))]
    await add_nodes(tenant, [node(name, **{RESOURCE: str(DEVICES)}) for name in HOSTS])
    await add_nodes(infra, [node(f"dpu-of-{host}", labels={HOST_LABEL: host}) for host in hosts])


def _roles(kubeconfigs: dict[str, Path], folder: Path, ports: dict[str, int]) -> dict[str, Role]:
    """All processes, in the order in which they start; the webhook of a side has this port."""
    port = lasting_port()
    infra, tenant = (f"--kubeconfig={kubeconfigs[side]}" for side in _SIDES)
    own = f"--namespace={SYSTEM_NAMESPACE}"
    gateway = (f"--gateway=127.0.0.1:{port}", "--tenant=tenant1")
    webhooks = {}
    for side, flags in (("infra", (infra, "--confine-tenants")), ("tenant", (tenant,))):
        pki = Pki(folder / f"pki-{side}")
        files = (f"--tls-cert-file={pki.certificate}", f"--tls-private-key-file={pki.key}", "--insecure")
        webhooks[f"webhook-{side}"] = Role("webhook", *flags, f"--port={ports[side]}", "--drain-seconds=0", *files)
    return {
        **webhooks,
        "controller": Role("controller", infra, own, "--controllers=workloads,tenants"),
        "gateway": Role("gateway", infra, f"--port={port}", *tls_flags(folder / "gateway", "client-ca")),
        "agent": Role("agent", tenant, own, *gateway, *tls_flags(folder / "tenant1", "gateway-ca")),
    }


async def _register(client: KubeClient, pki: Path, *, port: int, infra: bool) -> None:
    certificate = await asyncio.to_thread((pki / "ca.crt").read_bytes)
    bundle = base64.b64encode(certificate).decode()
    await register(client, address=f"127.0.0.1:{port}", bundle=bundle, settings={"confine_tenants": infra})
