"""Installs Berth in a cluster from inside it, as the init container of every replica: certificates and registration.

The Secret is the lock: the API server lets one replica create or replace it, and all use what it holds. Everything
after it is repeated by every replica and comes out the same, so a replica that dies half-way leaves nothing that the
next one does not repair. Objects are updated in place, never deleted: there is no moment without a webhook.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass
from datetime import datetime

from cryptography.exceptions import InvalidSignature

from app.certs.bundles import parse_bundle
from app.certs.holdings import AUTHORITY, BUNDLE, SERVING, load, make, renew, renewal_due
from app.certs.issuing import answers_to, serving_names
from app.certs.patching import ServiceName, merged_bundle
from app.certs.registration import Installation, mutating_of, service_of, validating_of
from app.errors import UsageError
from app.kube.client import KubeClient
from app.kube.reading import Sleep, get_or_none, until_no_conflict
from app.kube.resources import MUTATING_WEBHOOKS, SECRETS, SERVICES, VALIDATING_WEBHOOKS
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
    """What the Secret holds after this call, and whether it was we who wrote it."""
    secret = await get_or_none(client, SECRETS, installation.name, namespace=installation.namespace)
    present = {} if secret is None else _decode(secret.get("data") or {})
    files = _next(present, installation, now=now)
    if files == present:
        return files, False
    body: JSON = {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        # No owner: the certificate outlives the ReplicaSet that happened to come first.
        "metadata": {"name": installation.name, "namespace": installation.namespace},
        # The type of a Secret cannot change, and the one that an older installer left may be any.
        "type": "Opaque" if secret is None else secret.get("type", "Opaque"),
        "data": {name: base64.b64encode(content).decode("ascii") for name, content in files.items()},
    }
    if secret is None:
        await client.create(SECRETS, body, namespace=installation.namespace)
    else:
        body["metadata"]["resourceVersion"] = secret["metadata"]["resourceVersion"]
        await client.replace(SECRETS, installation.name, body, namespace=installation.namespace)
    return files, True


def _next(present: dict[str, bytes], installation: Installation, *, now: datetime) -> dict[str, bytes]:
    """`present` where it is whole, ours and not due; else its successor.

    A Secret of another installer (no CA key) or a damaged one is replaced, but for a CA of ours that is whole. What it
    served was trusted through the webhook configuration's own caBundle, which keeps the old CA.
    """
    names = serving_names(service=installation.service, namespace=installation.namespace, dns=installation.dns)
    kept: dict[str, bytes] = {}
    try:
        authority = load(present, AUTHORITY).certificate
        parse_bundle(present.get(BUNDLE, b""), source=BUNDLE)
        kept = {name: content for name, content in present.items() if name.startswith("ca")}
        serving = load(present, SERVING).certificate
        serving.verify_directly_issued_by(authority)
        if answers_to(serving, names):
            return renew(present, now=now).files
    except (UsageError, ValueError, TypeError, InvalidSignature):
        pass
    return make(kept, names=names, now=now)


def _bundle(present: JSON | None, files: dict[str, bytes], *, installation: Installation, now: datetime) -> str:
    """Our bundle, and what the present configuration trusts for our Service."""
    authorities = parse_bundle(files.get(BUNDLE, b"") or files[f"{AUTHORITY}.crt"], source=BUNDLE)
    ours = ServiceName(installation.namespace, installation.service)
    for webhook in (present or {}).get("webhooks") or []:
        target = webhook.get("clientConfig") or {}
        called = target.get("service") or {}
        if ServiceName(called.get("namespace", ""), called.get("name", "")) == ours:
            return merged_bundle(target.get("caBundle") or "", authorities, now=now)
    return merged_bundle("", authorities, now=now)


def _decode(data: JSON) -> dict[str, bytes]:
    """The contents of a Secret; an entry that is not base64 counts as absent."""
    files = {}
    for name, value in data.items():
        try:
            files[name] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError, TypeError):
            continue
    return files
