"""Check `certificate`: that of the webhook; those of gateway and agents, as the Secrets that they mount hold them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime

from app.certs.issuing import common_name_of
from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.model import Check, Finding, Severity, error, guarded, noted, or_default, topic
from app.doctor.serving import end, expiry, has_ended
from app.doctor.webhook_certificate import of_webhooks
from app.kube.resources import SECRETS
from app.registry import ROLES
from app.rmd.daemon.certificates import FILES, stored_files
from app.serving.tls import Pair, read_certificates
from app.tenancy.tenants.bundles import AGENT_SECRET
from app.wire import JSON


async def _of_roles(cluster: Cluster) -> AsyncIterator[Finding]:
    """Secrets of roles that are missing or cannot be used, or whose certificate was not renewed in time."""
    for role in (known for known in ROLES if known.when_expired):
        for one in await cluster.running(role.name):
            if one.tls_secret:
                async for finding in guarded(_of_secret(cluster, one)):
                    yield finding


async def _of_secret(cluster: Cluster, one: Installed) -> AsyncIterator[Finding]:
    it, role = objects.named(SECRETS, one.tls_secret, one.namespace), one.descriptor
    topics, fix = (topic("files", one.role),), await renew(cluster, one)
    secret = await cluster.get(SECRETS, it.name, namespace=it.namespace)
    if secret is None:
        waits = f"no new Pod of the {one.role} starts; then {role.when_down}"
        yield error("BERTH0610", it, consequence=waits, command=fix, explains=topics)
        return
    for severity, code, text in faults(secret, cluster.now()):
        follows = f"then {role.when_expired}" if severity is Severity.warning else role.when_expired
        yield noted(severity, code, it, text, follows, fix, explains=topics)


def faults(secret: JSON, now: datetime) -> Iterator[tuple[Severity, str, str]]:
    """What is wrong with the files: severity, code and message, which quotes nothing of a key."""
    files = stored_files(secret)
    if missing := [name for name in FILES if not files.get(name)]:
        yield Severity.error, "BERTH0610", f"has no {', '.join(missing)}"
        return
    certificate, key, authority = (files[name] for name in FILES)
    try:
        leaf = Pair.parse(certificate, key, cert_file=FILES[0], key_file=FILES[1]).leaf
        roots = read_certificates(authority, source=FILES[2])
    except ValueError as error:
        yield Severity.error, "BERTH0603", f"its files cannot be used: {error}"
        return
    if all(has_ended(one, now) for one in roots):
        yield Severity.error, "BERTH0606", f"its ca.crt expired on {end(roots[-1])}"
    if has_ended(leaf, now):
        yield Severity.error, "BERTH0606", f"its certificate {expiry(leaf, now)}"
    elif text := expiry(leaf, now):
        yield Severity.warning, "BERTH0608", f"its certificate {text}"


async def renew(cluster: Cluster, one: Installed, tenant: str = "", *, verb: str = "rotate") -> str:
    """The command that writes the Secret of a role again, with a new certificate.

    For an agent it is that of a tenant: by default the one that it is of now. `verb` is that of `berth tenant`.
    """
    if one.role == "gateway":
        keepers = await cluster.running("certificates")
        return commands.restart(keepers[0]) if keepers else f"berth tenant authority --namespace {one.namespace}"
    name = tenant or await tenant_of(cluster, one)
    issued = commands.rotate(name, "--kubeconfig", "INFRA", agent_namespace=one.namespace, verb=verb)
    if one.tls_secret == AGENT_SECRET:
        return f"{issued} && {commands.kubectl('apply', '-f', f'tenant-{name}/secret.yaml')}"
    return f"{issued} && {commands.write_secret(one.tls_secret, namespace=one.namespace, folder=f'tenant-{name}/')}"


async def tenant_of(cluster: Cluster, one: Installed) -> str:
    """The tenant of an agent, by its flag or else by its certificate; `TENANT` where neither says it."""
    if named := one.deployed.get("tenant"):
        return str(named)
    secret = await or_default(cluster.get(SECRETS, one.tls_secret, namespace=one.namespace), None)
    try:
        leaf = read_certificates(stored_files(secret or {}).get(FILES[0]) or b"", source=FILES[0])[0]
    except ValueError:
        return "TENANT"
    return common_name_of(leaf).partition(".")[0]


CHECK = Check("certificate", (of_webhooks, _of_roles))
