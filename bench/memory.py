"""`python -m bench.memory`: what each role takes of memory when it is ready and idle, started as the chart starts it.

The sandbox's API servers stand for an infra and a tenant cluster. Resident is what a kernel counts for a container;
the proportional part counts a page that several processes have mapped for each of them in part. With `--keep` the
figures are written into `memory.json`, from which the requests of the chart follow.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from app.devtools.clusters import definitions
from app.kube.resources import NAMESPACES, Resource
from app.kube.transport import connect
from app.tenancy.model import tenant_certificate_name
from app.workloads.model import TENANTS
from bench.companions_processes import Api, api_servers, running
from bench.fairness_calls import Pki
from bench.figures import Figure, show
from bench.processes import proportional_mib, resident_mib
from bench.servers import ServerError, is_ready
from bench.surroundings import free_port

KEPT = Path(__file__).with_name("memory.json")
AIMS = {"webhook": 60, "controller": 80}
TENANT_CLUSTER = ("webhook", "agent", "certificates")
TENANT_CLUSTER_AIM = 200
"""MiB, of one Pod of each of these."""
_TENANT = "bench"
_RELEASE = "berth-system"
_SETTLE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Taken:
    """MiB of one process."""

    resident: float
    proportional: float


def measure(directory: Path) -> dict[str, Taken]:
    """By role. Raises ServerError where a role does not get ready."""
    pki = Pki.make(directory / "pki", (_TENANT,))
    with api_servers(directory, ["infra", "tenant"]) as (infra, tenant):
        asyncio.run(_prepare(infra, definitions.INFRA, _TENANT))
        asyncio.run(_prepare(tenant, definitions.TENANT))
        files, port = pki.directory, free_port()
        serving = ["--tls-cert-file", str(files / "tls.crt"), "--tls-private-key-file", str(files / "tls.key")]
        taken = {}
        accepting = ["--port", str(port), *serving, "--client-ca", str(files / "ca.crt")]
        with (
            _role(infra, directory, "gateway", accepting) as taken["gateway"],
            _role(tenant, directory, "agent", _agent(files, port)) as taken["agent"],
        ):
            pass
        others = {
            "webhook": ["--port", "0", *serving, "--client-ca", str(files / "ca.crt"), "--drain-seconds", "0"],
            "certificates": ["--namespace", _RELEASE],
            "claims-node": ["--node-name", "node"],
        }
        for role, flags in others.items():
            with _role(tenant, directory, role, flags) as taken[role]:
                pass
        with _role(infra, directory, "controller", []) as taken["controller"]:
            pass
    return dict(sorted(taken.items()))


async def _prepare(api: Api, kinds: Sequence[Resource], tenant: str = "") -> None:
    async with await connect(kubeconfig=str(api.kubeconfig)) as client:
        await definitions.prepare(client, kinds)
        await client.apply(NAMESPACES, _RELEASE, NAMESPACES.body({"name": _RELEASE}))
        if tenant:
            spec = {"identity": {"names": [tenant_certificate_name(tenant)]}}
            await client.apply(TENANTS, tenant, TENANTS.body({"name": tenant}, spec=spec))


def _agent(files: Path, port: int) -> list[str]:
    mine = ["--tls-cert-file", str(files / f"{_TENANT}.crt"), "--tls-private-key-file", str(files / f"{_TENANT}.key")]
    return ["--gateway", f"127.0.0.1:{port}", "--gateway-ca", str(files / "ca.crt"), *mine]


@contextlib.contextmanager
def _role(api: Api, directory: Path, role: str, flags: Sequence[str]) -> Iterator[Taken]:
    health = free_port()
    command = [sys.executable, "-m", "app", role, "--kubeconfig", str(api.kubeconfig), *flags]
    command += ["--bind-address", "127.0.0.1", "--health-check-port", str(health)]
    with running(role, command, directory, ready=lambda: is_ready(health)) as process:
        time.sleep(_SETTLE_SECONDS)  # what a start leaves behind is collected
        yield Taken(resident_mib(process.pid), proportional_mib(process.pid))


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
    given = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
            taken = measure(Path(directory))
    except ServerError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    show("Memory of idle roles", figures_of(taken), Console())
    if given.keep:
        kept = {role: round(mib.resident, 1) for role, mib in taken.items()}
        KEPT.write_text(json.dumps(kept, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
