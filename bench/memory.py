"""`python -m bench.memory`: what each role takes of memory: ready and idle, and at most under floods beside objects.

The sandbox's API servers stand for an infra and a tenant cluster, and each role is started as the chart starts it.
Resident is what a kernel counts for a container; the proportional part counts a page that several processes have mapped
for each of them in part. For the peak there are `OBJECTS` Pods, attachments, claims, workloads and companions, and the
floods of `tests.support.floods` come to all ports of a role one after the other. With `--keep` the figures are written
into `memory.json`, from which the requests and limits of the chart follow.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console

from app.devtools.clusters import definitions
from app.kube.resources import NAMESPACES, NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIMS, Resource
from app.kube.transport import connect
from app.tenancy.model import tenant_certificate_name
from app.wire import JSON
from app.workloads.model import TENANT_RULES, TENANTS, WORKLOADS
from bench import companions_objects as objects
from bench import companions_seeding as seeding
from bench.apiserver import attachments
from bench.caches import pod_of
from bench.companions_processes import UNBOUNDED, Api, Running, api_servers, running
from bench.fairness_calls import Pki
from bench.figures import Figure, show
from bench.processes import peak_mib, proportional_mib, resident_mib
from bench.rounds import MeasureError
from bench.servers import ServerError, is_ready
from bench.surroundings import free_port
from tests.support import floods
from tests.support.floods import Port

KEPT = Path(__file__).with_name("memory.json")
AIMS = {"webhook": 60, "controller": 80}
TENANT_CLUSTER = ("webhook", "agent", "certificates")
TENANT_CLUSTER_AIM = 200
"""MiB, of one Pod of each of these."""
OBJECTS = 10_000
"""Of each kind, for the peak."""
PARTIAL = frozenset({"claims-node", "controller", "gateway"})
"""Roles whose peak is told and not kept. What the first two take depends on the wings that are on, and on the size of
claims. A gateway takes more under as many silent connections as it keeps.
"""
_TENANT = objects.TENANT
_RELEASE = "berth-system"
_SETTLE_SECONDS = 3.0
_PATIENCE = 900.0
_USED = 1_000
"""Connections that were used and are kept: nearly as many as a port keeps."""
_CROWDED = 20
"""Reviews at a time, each of a Pod with 80,000 containers."""


@dataclass(frozen=True, slots=True)
class Taken:
    """MiB of one process."""

    resident: float
    proportional: float


@dataclass(frozen=True, slots=True)
class Started:
    """A role at work; `port` is where it serves its purpose, 0 without."""

    process: Running
    health: int
    port: int

    @property
    def taken(self) -> Taken:
        return Taken(resident_mib(self.process.pid), proportional_mib(self.process.pid))


@dataclass(frozen=True, slots=True)
class Clusters:
    """The API servers, the files of a gateway and its tenant, and how the roles are started."""

    infra: Api
    tenant: Api
    directory: Path
    files: Path

    @classmethod
    @contextlib.contextmanager
    def running(cls, directory: Path) -> Iterator[Self]:
        pki = Pki.make(directory / "pki", (_TENANT,))
        with api_servers(directory, ["infra", "tenant"]) as (infra, tenant):
            asyncio.run(_prepare(infra, definitions.INFRA, _TENANT))
            asyncio.run(_prepare(tenant, definitions.TENANT))
            yield cls(infra, tenant, directory, pki.directory)

    @contextlib.contextmanager
    def linked(self) -> Iterator[tuple[Started, Started]]:
        """Gateway and agent."""
        flags = [*self._serving(), "--client-ca", str(self.files / "ca.crt")]
        with self.role("gateway", *flags, api=self.infra, serves=True) as gateway:
            mine = ["--tls-cert-file", str(self.files / f"{_TENANT}.crt")]
            mine += ["--tls-private-key-file", str(self.files / f"{_TENANT}.key")]
            with self.role(
                "agent", "--gateway", f"127.0.0.1:{gateway.port}", "--gateway-ca", str(self.files / "ca.crt"), *mine
            ) as agent:
                yield gateway, agent

    def others(self) -> dict[str, contextlib.AbstractContextManager[Started]]:
        """The other roles, none of which is started yet."""
        # No scheduler looks at the companions here: the bounds on those without a node would hold all but 100 back.
        unbounded = ["--tenant-quota", ",".join(f"{bound}=" for bound in UNBOUNDED)]
        webhook = [*self._serving(), "--client-ca", str(self.files / "ca.crt"), "--drain-seconds", "0"]
        return {
            "webhook": self.role("webhook", *webhook, serves=True),
            "certificates": self.role("certificates", "--namespace", _RELEASE),
            "claims-node": self.role("claims-node", "--node-name", "node"),
            "controller": self.role("controller", *unbounded, api=self.infra),
        }

    def of_tenant(self, port: int, *protocols: str) -> Port:
        """A port of a role, for a client with the certificate of the tenant."""
        context = ssl.create_default_context(cafile=str(self.files / "ca.crt"))
        context.check_hostname = False
        context.load_cert_chain(self.files / f"{_TENANT}.crt", self.files / f"{_TENANT}.key")
        if protocols:
            context.set_alpn_protocols([*protocols])
        return Port(("127.0.0.1", port), context)

    @contextlib.contextmanager
    def role(self, name: str, *flags: str, api: Api | None = None, serves: bool = False) -> Iterator[Started]:
        health, port = free_port(), free_port() if serves else 0
        command = [sys.executable, "-m", "app", name, "--kubeconfig", str((api or self.tenant).kubeconfig), *flags]
        command += ["--bind-address", "127.0.0.1", "--health-check-port", str(health)]
        command += ["--port", str(port)] if serves else []
        with running(name, command, self.directory, ready=lambda: is_ready(health)) as process:
            time.sleep(_SETTLE_SECONDS)  # what a start leaves behind is collected
            yield Started(process, health, port)

    def _serving(self) -> list[str]:
        return ["--tls-cert-file", str(self.files / "tls.crt"), "--tls-private-key-file", str(self.files / "tls.key")]


def idle(directory: Path) -> dict[str, Taken]:
    """By role. Raises ServerError where a role does not get ready."""
    taken = {}
    with Clusters.running(directory) as clusters:
        with clusters.linked() as (gateway, agent):
            taken |= {"gateway": gateway.taken, "agent": agent.taken}
        for name, role in clusters.others().items():
            with role as started:
                taken[name] = started.taken
    return dict(sorted(taken.items()))


def peaks(directory: Path, count: int, progress: Callable[[str], None]) -> dict[str, float]:
    """MiB by role. Raises ServerError where a role does not get ready, or ends."""
    found = {}
    with Clusters.running(directory) as clusters:
        progress(f"{count:,} objects of each kind")
        asyncio.run(_fill(clusters, count))
        with clusters.linked() as (gateway, agent):
            progress("the agent sends its Pods")
            asyncio.run(_until(clusters.infra, WORKLOADS, count))
            for attack in floods.GRPC.values():
                port = clusters.of_tenant(gateway.port, "h2")
                found["gateway"] = _flooded(gateway, lambda kept: floods.http2(port, 40, attack, kept))  # noqa: B023
            found |= {"gateway": _at_health(gateway), "agent": _at_health(agent)}
        for name, role in clusters.others().items():
            progress(name)
            if name == "controller":
                asyncio.run(_match_all(clusters.infra))
            with role as started:
                if name == "controller":
                    asyncio.run(_until(clusters.infra, PODS, count))
                if name == "webhook":
                    _review(clusters.of_tenant(started.port), started)
                found[name] = _at_health(started)
    return dict(sorted(found.items()))


def _review(port: Port, webhook: Started) -> None:
    for attack in floods.REVIEWS.values():
        _flooded(webhook, lambda kept: attack(port, kept))  # noqa: B023
    _flooded(webhook, lambda kept: floods.used(port, _USED, kept))
    body = floods.crowded(80_000)
    whole = floods.POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    _flooded(webhook, lambda kept: floods.secured(port, _CROWDED, whole, kept))


def _at_health(role: Started) -> float:
    for attack in floods.HEALTH.values():
        _flooded(role, lambda kept: attack(("127.0.0.1", role.health), kept))  # noqa: B023
    return peak_mib(role.process.pid)


def _flooded(role: Started, attack: Callable[[list[socket.socket]], None]) -> float:
    """The peak up to now, with the flood. Its connections are closed then."""
    kept: list[socket.socket] = []
    try:
        attack(kept)
        time.sleep(1.0)
    finally:
        for connection in kept:
            with contextlib.suppress(OSError):
                connection.close()
    if role.process.process.poll() is not None:
        raise ServerError(f"{role.process.name} ended:\n{role.process.tail()}")
    return peak_mib(role.process.pid)


async def _fill(clusters: Clusters, count: int) -> None:
    async with await connect(kubeconfig=str(clusters.infra.kubeconfig)) as client:
        await client.apply(NAMESPACES, objects.NAMESPACE, NAMESPACES.body({"name": objects.NAMESPACE}))
    async with await connect(kubeconfig=str(clusters.tenant.kubeconfig)) as client:
        made = [objects.workload(number, rules=1) for number in range(count)]
        claim = {"devices": {"requests": [{"name": "nic", "exactly": {"deviceClassName": "vf.example.com"}}]}}
        kinds: dict[Resource, Iterable[JSON]] = {
            NETWORK_ATTACHMENTS: (_of_default(body) for body in attachments(count)),
            PODS: (_of_default(pod_of(workload)) for workload in made),
            RESOURCE_CLAIMS: (
                RESOURCE_CLAIMS.body({"name": f"claim-{number}", "namespace": "default"}, spec=claim)
                for number in range(count)
            ),
        }
        for kind, bodies in kinds.items():
            await seeding.create(client, kind, bodies)


def _of_default(body: JSON) -> JSON:
    """The object in namespace default, without what an API server sets."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in ("uid", "resourceVersion")}
    return {**body, "metadata": {**metadata, "namespace": "default"}}


async def _match_all(api: Api) -> None:
    async with await connect(kubeconfig=str(api.kubeconfig)) as client:
        await seeding.create(client, TENANT_RULES, [objects.rule(0, rules=1)])


async def _until(api: Api, kind: Resource, count: int) -> None:
    """Until the tenant's namespace has so many objects of that kind. Raises MeasureError where it never has."""
    end = time.monotonic() + _PATIENCE
    async with await connect(kubeconfig=str(api.kubeconfig)) as client:
        while True:
            answer = await client.get_path(kind.path(namespace=objects.NAMESPACE) + "?limit=1")
            found = len(answer["items"]) + int(answer["metadata"].get("remainingItemCount") or 0)
            if found >= count:
                return
            if time.monotonic() > end:
                raise MeasureError(f"{kind.plural}: {found} of {count}")
            await asyncio.sleep(1.0)


async def _prepare(api: Api, kinds: Sequence[Resource], tenant: str = "") -> None:
    async with await connect(kubeconfig=str(api.kubeconfig)) as client:
        await definitions.prepare(client, kinds)
        await client.apply(NAMESPACES, _RELEASE, NAMESPACES.body({"name": _RELEASE}))
        if tenant:
            spec = {"identity": {"names": [tenant_certificate_name(tenant)]}}
            await client.apply(TENANTS, tenant, TENANTS.body({"name": tenant}, spec=spec))


def figures_of(taken: dict[str, Taken]) -> list[Figure]:
    found = [
        Figure(f"{role}: resident", mib.resident, AIMS.get(role), "less", unit="MiB") for role, mib in taken.items()
    ]
    found += [
        Figure(f"{role}: proportional", mib.proportional, None, "less", unit="MiB") for role, mib in taken.items()
    ]
    whole = sum(taken[role].resident for role in TENANT_CLUSTER)
    name = f"a tenant cluster: {', '.join(TENANT_CLUSTER)}"
    return [*found, Figure(name, whole, TENANT_CLUSTER_AIM, "less", unit="MiB")]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", action="store_true", help=f"write the figures into {KEPT.name}")
    parser.add_argument("--objects", type=int, default=OBJECTS, help="of each kind, for the peak [%(default)s]")
    given = parser.parse_args()
    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
            taken = idle(Path(directory) / "idle")
            most = peaks(Path(directory) / "peak", given.objects, console.print)
    except (MeasureError, ServerError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    show("Memory of idle roles", figures_of(taken), console)
    title = f"The most that they take, with {given.objects:,} objects of each kind"
    show(title, [Figure(f"{role}: peak", mib, None, "less", unit="MiB") for role, mib in most.items()], console)
    if given.keep:
        kept = {role: {"idle": round(mib.resident, 1)} for role, mib in taken.items()}
        for role in most.keys() - PARTIAL:
            kept[role]["peak"] = round(most[role], 1)
        KEPT.write_text(json.dumps(kept, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
