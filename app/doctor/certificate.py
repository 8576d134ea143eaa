"""Check `certificate`: that of the webhook; those of gateway and agents, as the Secrets that they mount hold them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.model import Check, Finding, Severity, error, files_topic, guarded, noted
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
    subject, follows = f"Secret {one.namespace}/{one.tls_secret}", one.descriptor.when_expired
    topics = (files_topic(one.role),)
    secret = await cluster.get(SECRETS, one.tls_secret, namespace=one.namespace)
    if secret is None:
        waits = f"no new Pod of the {one.role} starts; then {one.descriptor.when_down}"
        yield error("BERTH0610", subject, "is missing", waits, await renew(cluster, one), explains=topics)
        return
    for severity, code, text in faults(secret, cluster.now()):
        then = "then " if severity is Severity.warning else ""
        yield noted(severity, code, subject, text, f"{then}{follows}", await renew(cluster, one), explains=topics)


CHECK = Check("certificate", (of_webhooks, _of_roles))
