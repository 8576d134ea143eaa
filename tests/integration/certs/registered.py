"""Webhook configurations as the chart registers them, without a caBundle, and the certificates that are kept for them."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from app.certs import rotation
from app.certs.certificate_set import CertificateSet, parse_bundle
from app.certs.settings import CertificatesSettings
from app.kube.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Resource
from app.registration import Terms, objects_to, pods_to

NAMESPACE, SERVICE, SECRET, NAME = "berth", "berth-webhook", "berth-webhook-tls", "berth"
KINDS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
SETTINGS = CertificatesSettings(
    namespace=NAMESPACE, webhook_service=SERVICE, webhook_secret=SECRET, configuration=(NAME,)
)


def configuration(resource: Resource, name: str = NAME, *, service: str = SERVICE, **labels: str) -> dict[str, Any]:
    path, build = ("/mutate", _pods) if resource is MUTATING_WEBHOOKS else ("/validate", _objects)
    body = build({"service": {"namespace": NAMESPACE, "name": service, "path": path}}, name)
    body["metadata"]["labels"] = labels
    return body


async def register(client: Any, name: str = NAME, **options: Any) -> None:
    for resource in KINDS:
        await client.create(resource, configuration(resource, name, **options))


async def bundles(client: Any, name: str = NAME) -> list[list[Any]]:
    """What each webhook of that name trusts."""
    found = []
    for resource in KINDS:
        for webhook in (await client.get(resource, name))["webhooks"]:
            pem = base64.b64decode(webhook["clientConfig"].get("caBundle") or "")
            found.append(parse_bundle(pem, source="caBundle"))
    return found


async def stored(client: Any, name: str = SECRET) -> dict[str, bytes]:
    data = (await client.get(SECRETS, name, namespace=NAMESPACE))["data"]
    return {entry: base64.b64decode(value) for entry, value in data.items()}


def settled(files: dict[str, bytes]) -> datetime:
    """When every caller has heard of the CA in these files."""
    return rotation.settled(CertificateSet.parse(files))


async def change(client: Any, body: dict[str, Any], name: str = SECRET) -> None:
    await client.patch(SECRETS, name, body, patch_type="merge", namespace=NAMESPACE)


def _pods(calling: dict[str, Any], name: str) -> dict[str, Any]:
    return pods_to(calling, name=name, webhook="pods.berth.dev", terms=Terms())


def _objects(calling: dict[str, Any], name: str) -> dict[str, Any]:
    return objects_to(calling, name=name, webhook="rules.berth.dev", terms=Terms())
