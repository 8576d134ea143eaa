"""Installs Berth in a cluster from inside it, as the init container of every replica: certificates and registration.

The Secret is the lock: the API server lets one replica create or replace it, and all use what it holds. Everything
after it is repeated by every replica and comes out the same, so a replica that dies half-way leaves nothing that the
next one does not repair. Objects are updated in place, never deleted: there is no moment without a webhook.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from app.certs.holdings import AUTHORITY, SERVING, load, renewal_due
from app.certs.issuing import serving_names
from app.certs.patching import ServiceName, called_service, merged_bundle
from app.certs.registration import Installation, mutating_of, service_of, validating_of
from app.certs.secrets import read_secret, write_secret
from app.certs.succession import Wanted, successor, trusted
from app.kube.client import KubeClient
from app.kube.reading import Sleep, get_or_none, until_no_conflict
from app.kube.resources import MUTATING_WEBHOOKS, SERVICES, VALIDATING_WEBHOOKS
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
    files, issued = await _holdings(client, installation, now=now)
    await client.apply(SERVICES, installation.service, service_of(installation), namespace=installation.namespace)
    for resource, name, build in (
        (MUTATING_WEBHOOKS, installation.mutating, mutating_of),
        (VALIDATING_WEBHOOKS, installation.validating, validating_of),
    ):
        present = await get_or_none(client, resource, name)
        body = build(installation, bundle=_bundle(present, files, installation=installation, now=now))
        if present is not None:  # a rival may have put a newer CA there since we read: then conflict, and again
            body["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
        await client.apply(resource, name, body)
    serving = {name: files[name] for name in (f"{SERVING}.crt", f"{SERVING}.key")}
    return Installed(serving, issued, min(renewal_due(load(files, stem).certificate) for stem in (AUTHORITY, SERVING)))


async def _holdings(client: KubeClient, installation: Installation, *, now: datetime) -> tuple[dict[str, bytes], bool]:
    """What the Secret holds after this call, and whether it was we who wrote it.

    A Secret of another installer is taken over, mark or no mark: its name is the one that we were told.
    """
    present = await read_secret(client, installation.name, namespace=installation.namespace)
    names = serving_names(service=installation.service, namespace=installation.namespace, dns=installation.dns)
    files = successor(present.files, Wanted(names), now=now)
    if files == present.files:
        return files, False
    await write_secret(client, present, files)
    return files, True


def _bundle(present: JSON | None, files: dict[str, bytes], *, installation: Installation, now: datetime) -> str:
    """Our bundle, and what the present configuration trusts for our Service."""
    ours = ServiceName(installation.namespace, installation.service)
    for webhook in (present or {}).get("webhooks") or []:
        if called_service(webhook) == ours:
            return merged_bundle(webhook["clientConfig"].get("caBundle") or "", trusted(files), now=now)
    return merged_bundle("", trusted(files), now=now)
