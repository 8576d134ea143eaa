"""Check `certificate`: that of the webhook; those of gateway and agents, as the Secrets that they mount hold them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.model import Check, Finding, Severity, error, guarded, noted, topic
from app.doctor.role_secrets import faults, renew
from app.doctor.webhook_certificate import of_webhooks
from app.kube.resources import SECRETS
from app.registry import ROLES


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


CHECK = Check("certificate", (of_webhooks, _of_roles))
