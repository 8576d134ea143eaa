"""The commands that issue certificates of gateway and agents, and change what a tenant may use."""

from __future__ import annotations

import shlex

from app.certs.issuing import common_name_of
from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.model import or_default
from app.kube.resources import SECRETS
from app.kube.secrets import FILES, stored_files
from app.serving.tls import read_certificates
from app.tenancy.model import CLUSTER
from app.tenancy.tenants.bundles import AGENT_SECRET
from app.workloads.model import TENANTS

UNKNOWN = "NAME"
"""A tenant that is not known here; `app.doctor.aiming` says what it is."""


async def renew_gateway(cluster: Cluster, deployment: Installed) -> str:
    """The command that writes the Secret of the gateway again, with a new certificate."""
    keepers = await cluster.running("certificates")
    if keepers:
        return commands.restart(cluster, keepers[0])
    return f"berth tenant authority --berth-namespace {deployment.namespace}"


async def renew_agent(cluster: Cluster, deployment: Installed, tenant: str = "", *, verb: str = "rotate") -> str:
    """The same for an agent; the certificate is that of a tenant: by default the one that it is of now.

    `verb` is that of `berth tenant`.
    """
    name = tenant or await tenant_of(cluster, deployment)
    issued = _rotate(name, "--kubeconfig", "INFRA", agent_namespace=deployment.namespace, verb=verb)
    if deployment.tls_secret == AGENT_SECRET:
        return f"{issued} && {commands.kubectl('apply', '-f', f'tenant-{name}/secret.yaml')}"
    written = commands.write_secret(deployment.tls_secret, namespace=deployment.namespace, folder=f"tenant-{name}/")
    return f"{issued} && {written}"


async def tenant_of(cluster: Cluster, deployment: Installed) -> str:
    """The tenant of an agent, by its flag or else by its certificate; a placeholder where neither says it."""
    if named := deployment.deployed.get("tenant"):
        return str(named)
    secret = await or_default(cluster.get(SECRETS, deployment.tls_secret, namespace=deployment.namespace), None)
    try:
        leaf = read_certificates(stored_files(secret or {}).get(FILES[0]) or b"", source=FILES[0])[0]
    except ValueError:
        return UNKNOWN
    return common_name_of(leaf).partition(".")[0]


def give_bundle(name: str, agent_namespace: str, *, apply: bool = True) -> str:
    """Writes a bundle of a tenant with a new certificate, and gives it to the agent in its cluster."""
    issued = _rotate(name, agent_namespace=agent_namespace)
    return f"{issued} && kubectl --kubeconfig TENANT apply -f tenant-{name}/secret.yaml" if apply else issued


def _rotate(name: str, *options: str, agent_namespace: str, verb: str = "rotate") -> str:
    """Writes a bundle with a new certificate; with the verb `add` for a Tenant that is not there."""
    return shlex.join(["berth", "tenant", verb, name, *options, "--agent-namespace", agent_namespace])


def resume(name: str) -> str:
    """Has the gateway accept the agent of a tenant that is suspended."""
    return shlex.join(["berth", "tenant", "resume", name])


def move(name: str) -> str:
    """Lets the next cluster that calls for a tenant be its cluster."""
    return commands.kubectl("annotate", objects.plural(TENANTS), name, f"{CLUSTER}-")
