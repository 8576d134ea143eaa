"""Puts a CA bundle into webhook configurations, and touches nothing else in them; deletes configurations of Berth.

What a configuration trusted before stays beside the new CA until it expires, so servers may follow later, but for
what the caller says must go. Writes are conditional on the version that was read and repeated on conflict.
"""

from __future__ import annotations

import asyncio
import base64
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from app.certs.certificate_set import Keeps, encode_bundle, overlap, parse_bundle
from app.errors import ApiError, Terminal, UsageError
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.kube.retry import Sleep, get_or_none, if_there, until_no_conflict
from app.kube.walls import Apart
from app.wire import JSON

CONFIGURATIONS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
ATTEMPTS = 8
PART_OF = "app.kubernetes.io/part-of"
PART = "berth"


@dataclass(frozen=True, slots=True)
class ServiceName:
    """The Service that a webhook calls."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Patched:
    """One configuration: how many of its webhooks were meant, and how many had another bundle before."""

    kind: str
    name: str
    webhooks: int
    changed: int


async def patch_bundle(
    client: KubeClient,
    name: str,
    *,
    authorities: Sequence[x509.Certificate],
    service: ServiceName | None,
    now: datetime,
    sleep: Sleep = asyncio.sleep,
) -> list[Patched]:
    """Make the mutating and the validating configuration called `name` trust `authorities`.

    With `service`, only webhooks that call it; else every webhook of the configuration. Raises Terminal where neither
    configuration exists or none of its webhooks is meant, and ApiError where the API server does not let us.
    """
    results = await trust(client, name, authorities=authorities, service=service, now=now, sleep=sleep)
    if not results:
        raise Terminal(f"there is no MutatingWebhookConfiguration or ValidatingWebhookConfiguration named {name!r}")
    if not any(result.webhooks for result in results):
        condition = f" that calls Service {service.namespace}/{service.name}" if service else ""
        raise Terminal(f"webhook configuration {name!r} has no webhook{condition}")
    return results


def called_service(webhook: JSON) -> ServiceName | None:
    """The Service that an entry of a configuration calls; None where it calls a URL."""
    called = (webhook.get("clientConfig") or {}).get("service")
    return ServiceName(called.get("namespace", ""), called.get("name", "")) if called else None


def merged_bundle(
    present: str, authorities: Sequence[x509.Certificate], *, now: datetime, keeps: Keeps | None = None
) -> str:
    """The value for `caBundle`: `authorities`, then what of `present` (base64 of PEM) stays and has not expired.

    A present value that cannot be read is worth nothing to the API server either, and is replaced.
    """
    earlier = filter(keeps, _certificates(present))
    return base64.b64encode(encode_bundle(overlap(authorities, earlier, now=now))).decode("ascii")


async def trusting(client: KubeClient, names: Sequence[str], *, service: ServiceName) -> list[x509.Certificate]:
    """The CAs that webhooks which call `service` trust, in all configurations of these names."""
    return [
        authority
        for name in names
        for resource in CONFIGURATIONS
        for bundle in _webhooks(await get_or_none(client, resource, name) or {}, service).values()
        for authority in _certificates(bundle)
    ]


async def trust(
    client: KubeClient,
    name: str,
    *,
    authorities: Sequence[x509.Certificate],
    service: ServiceName | None,
    now: datetime,
    keeps: Keeps | None = None,
    sleep: Sleep = asyncio.sleep,
) -> list[Patched]:
    """As `patch_bundle`, for the configurations that exist. What was trusted before stays as `keeps` says."""

    async def attempt(resource: Resource) -> Patched | None:
        configuration = await get_or_none(client, resource, name)
        if configuration is None:
            return None
        meant = _webhooks(configuration, service)
        bundles = {index: merged_bundle(bundle, authorities, now=now, keeps=keeps) for index, bundle in meant.items()}
        # "add" sets a member whether or not it is there.
        operations: list[JSON] = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
            for index, bundle in bundles.items()
            if bundle != meant[index]
        ]
        if operations:
            version = configuration["metadata"]["resourceVersion"]
            test: JSON = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
            await client.patch(resource, name, [test, *operations], patch_type="json")
        return Patched(resource.kind, name, len(meant), len(operations))

    results, apart = [], Apart()
    for resource in CONFIGURATIONS:
        with apart.step():
            request = until_no_conflict(
                functools.partial(attempt, resource), sleep=sleep, attempts=ATTEMPTS, lost=_lost
            )
            result = await if_there(request)  # deleted meanwhile
            results += [result] if result else []
    apart.end()
    return results


def _lost(error: ApiError) -> bool:
    """A test that fails is 422 at a real API server; a write that came between is 409."""
    return error.conflict or error.status == 422


def _webhooks(configuration: JSON, service: ServiceName | None) -> dict[int, str]:
    """The caBundle, by position, of each webhook that calls `service`; of all of them, if None."""
    return {
        index: (webhook.get("clientConfig") or {}).get("caBundle") or ""
        for index, webhook in enumerate(configuration.get("webhooks") or [])
        if service is None or called_service(webhook) == service
    }


def _certificates(bundle: str) -> list[x509.Certificate]:
    try:
        return parse_bundle(base64.b64decode(bundle), source="caBundle")
    except (ValueError, UsageError):
        return []


async def unregister(client: KubeClient, name: str, *, service: ServiceName | None) -> list[str]:
    """Delete the mutating and the validating configuration called `name`; the lines say what became of each.

    Raises Terminal, after the rest is done, for a configuration that is not Berth's; ApiError where the API server
    refuses a request.
    """
    lines, foreign = [], []
    for resource in CONFIGURATIONS:
        present = await get_or_none(client, resource, name)
        if present is None:
            lines.append(f"{resource.kind} {name}: there is none")
        elif not _is_ours(present, service):
            foreign.append(f"{resource.kind} {name}")
        else:
            await if_there(client.delete(resource, name, uid=present["metadata"]["uid"]))
            lines.append(f"{resource.kind} {name}: deleted")
    if foreign:
        called = f" and calls others than Service {service.namespace}/{service.name}" if service else ""
        raise Terminal(f"{', '.join(foreign)}: not ours, not deleted: it lacks the label {PART_OF}={PART}{called}")
    return lines


def _is_ours(configuration: JSON, service: ServiceName | None) -> bool:
    if (configuration["metadata"].get("labels") or {}).get(PART_OF) == PART:
        return True
    webhooks = configuration.get("webhooks") or []
    return bool(webhooks) and service is not None and all(called_service(webhook) == service for webhook in webhooks)
