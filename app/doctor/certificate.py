"""Check `certificate`: that of the webhook; those of gateway and agents, as the Secrets that they mount hold them."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator

from cryptography import x509
from cryptography.x509.oid import NameOID

from app.doctor import commands
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.model import Check, Finding, error, guarded, warning
from app.doctor.validity import expiry, has_ended, read
from app.doctor.webhook_certificate import of_webhooks
from app.kube.resources import SECRETS
from app.registry import ROLES


async def _of_roles(cluster: Cluster) -> AsyncIterator[Finding]:
    """Certificates of roles that have expired, or that were not renewed before the last quarter of their lifetime.

    The check of the Pods reports a missing Secret.
    """
    for role in (known for known in ROLES if known.when_expired):
        for one in await cluster.running(role.name):
            for name in one.secrets:
                async for finding in guarded(_of_secret(cluster, one, name)):
                    yield finding


async def _of_secret(cluster: Cluster, one: Installed, name: str) -> AsyncIterator[Finding]:
    subject, follows = f"Secret {one.namespace}/{name}", one.descriptor.when_expired
    secret = await cluster.get(SECRETS, name, namespace=one.namespace)
    certificates, broken = read(((secret or {}).get("data") or {}).get("tls.crt") or "", source=subject)
    leaf, now = next(iter(certificates), None), cluster.now()
    if broken:
        yield error(
            "BERTH0603", subject, f"its certificate cannot be read: {broken}", follows, await _renew(cluster, one, None)
        )
    elif leaf is not None and (text := expiry(leaf, now)):
        fix = await _renew(cluster, one, leaf)
        if has_ended(leaf, now):
            yield error("BERTH0606", subject, f"its certificate {text}", follows, fix)
        else:
            yield warning("BERTH0608", subject, f"its certificate {text}", f"then {follows}", fix)


async def _renew(cluster: Cluster, one: Installed, leaf: x509.Certificate | None) -> str:
    if one.role == "gateway":
        keepers = await cluster.running("certificates")
        return commands.restart(keepers[0]) if keepers else f"berth tenant authority --namespace {one.namespace}"
    named = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME) if leaf is not None else []
    tenant = one.deployed.get("tenant") or (str(named[0].value).partition(".")[0] if named else "TENANT")
    written = shlex.quote(f"tenant-{tenant}/secret.yaml")
    return f"berth tenant rotate {shlex.quote(tenant)} --kubeconfig INFRA && kubectl apply -f {written}"


CHECK = Check("certificate", (of_webhooks, _of_roles))
