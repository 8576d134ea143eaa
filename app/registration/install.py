"""Installs Berth in a cluster from inside it, as the init container of every replica: certificates and registration.

The Secret is the lock: the API server lets one replica create or replace it, and all use what it holds. Everything
after it is repeated by every replica and comes out the same, so a replica that dies half-way leaves nothing that the
next one does not repair. Objects are updated in place, never deleted: there is no moment without a webhook.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime

from app.certs import issuing, patching, rotation
from app.certs.certificate_set import DAYS, SERVING, CertificateSet
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, SERVICES, VALIDATING_WEBHOOKS
from app.kube.retry import Sleep, get_or_none, until_no_conflict
from app.kube.secrets import read_secret, write_secret
from app.registration.objects import PORT, Installation, service_of
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Installed:
    """What a replica serves with (`files`: tls.crt, tls.key), when it is due again, and whether we issued it."""

    files: dict[str, bytes]
    issued: bool
    next_due: datetime


async def install(
    client: KubeClient, installation: Installation, *, now: datetime, sleep: Sleep = asyncio.sleep
) -> Installed:
    """Secret, Service and webhook configurations, in this order; any number of replicas at once.

    Raises ApiError where the API server does not let us.
    """
    return await until_no_conflict(lambda: _install_once(client, installation, now=now), sleep=sleep)


async def _install_once(client: KubeClient, installation: Installation, *, now: datetime) -> Installed:
    held, issued = await _certificates(client, installation, now=now)
    present = await get_or_none(client, SERVICES, installation.service, namespace=installation.namespace)
    ports: list[JSON] = ((present or {}).get("spec") or {}).get("ports") or []
    # The targetPort of an existing Service is kept, because the webhook's port was chosen to match it.
    target = next((port.get("targetPort") for port in ports if port.get("port") == PORT), None)
    body = _over(present, service_of(installation, target_port=target))
    await client.apply(SERVICES, installation.service, body, namespace=installation.namespace)
    for resource, name in ((MUTATING_WEBHOOKS, installation.mutating), (VALIDATING_WEBHOOKS, installation.validating)):
        present = await get_or_none(client, resource, name)
        ours = _webhook(present, installation)
        timeout = installation.timeout_seconds or ours.get("timeoutSeconds")
        bundle = patching.merged_bundle(
            (ours.get("clientConfig") or {}).get("caBundle") or "",
            held.trusted,
            now=now,
            keeps=rotation.needed_still(held, days=DAYS, now=now),
        )
        body = replace(installation, timeout_seconds=timeout).registration(resource, bundle=bundle)
        await client.apply(resource, name, _over(present, body))
    serving = {name: held.files[name] for name in (f"{SERVING}.crt", f"{SERVING}.key")}
    return Installed(serving, issued, held.next_due)


async def _certificates(
    client: KubeClient, installation: Installation, *, now: datetime
) -> tuple[CertificateSet, bool]:
    """What the Secret holds after this call, and whether this call has written it.

    A Secret of another installer is taken over, with or without our label, because its name is the one that is given.
    """
    secret = await read_secret(client, installation.name, namespace=installation.namespace)
    names = issuing.serving_names(service=installation.service, namespace=installation.namespace, dns=installation.dns)
    present = CertificateSet.parse(secret.files, leaves=[SERVING])
    following = rotation.successor(present, rotation.webhook(names), now=now)
    held = rotation.without_outlived(following, days=DAYS, now=now)
    if written := held.files != secret.files:
        await write_secret(client, secret, held.files)
    return held, written


def _over(present: JSON | None, body: JSON) -> JSON:
    """`body`, to be written over `present` alone: a rival may have put a newer CA there; then conflict, and again."""
    if present is not None:
        body["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
    return body


def _webhook(present: JSON | None, installation: Installation) -> JSON:
    """The webhook of a configuration that calls our Service, {} where there is none."""
    service = patching.ServiceName(installation.namespace, installation.service)
    webhooks: list[JSON] = (present or {}).get("webhooks") or []
    return next((webhook for webhook in webhooks if patching.called_service(webhook) == service), {})
