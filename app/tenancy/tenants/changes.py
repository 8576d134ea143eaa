"""Adds tenants, rotates their certificates and removes them: the steps behind `berth tenant`, against a cluster.

Every step is safe to repeat, and none takes what is not ours. Issuing and writing bundles is `bundles`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.errors import ApiError, BerthError, UsageError
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.kube.retry import delete_if_there, every_item, get_or_none, until_no_conflict
from app.tenancy.model import ADMIN_NAME
from app.tenancy.tenants.bundles import Bundle
from app.tenancy.tenants.namespace import ForeignNamespace, NamespaceEnding, is_ours, read_namespace
from app.tenancy.tenants.objects import parse_until, tenant_problems
from app.text import stamp
from app.wire import JSON
from app.workloads.model import TENANTS

_ATTEMPTS = 5
_REFUSED = (400, 403, 404, 422)
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Removed:
    """What `remove_tenant` did; `namespace` is "deleted", "foreign" (it stays) or "absent"."""

    tenant: bool
    namespace: str


async def read_tenant(client: KubeClient, name: str) -> JSON | None:
    return await get_or_none(client, TENANTS, name)


async def list_tenants(client: KubeClient) -> list[JSON]:
    """All Tenants, by name."""
    try:
        items = [item async for item in every_item(lambda token: client.list_page(TENANTS, continue_token=token))]
    except ApiError as error:
        raise _explained(error) from error
    return sorted(items, key=lambda item: str(item["metadata"]["name"]))


async def check_namespace(client: KubeClient, name: str) -> None:
    """Raise ForeignNamespace where Berth does not manage the tenant's namespace, NamespaceEnding where it is ending."""
    present = await read_namespace(client, name)
    if present is None:
        return
    namespace = present["metadata"]["name"]
    if not is_ours(present, name):
        raise ForeignNamespace(f"namespace {namespace} exists and is not ours; it is not taken over")
    if present["metadata"].get("deletionTimestamp"):
        raise NamespaceEnding(f"namespace {namespace} is still being deleted; try again when it is gone")


async def create_tenant(
    client: KubeClient,
    name: str,
    *,
    names: Sequence[str],
    bundle: Bundle | None,
    hosts: Sequence[str] | None,
    admin_names: Sequence[str] = (ADMIN_NAME,),
) -> JSON:
    """Create the Tenant object. Raises UsageError for one that could not work, ApiError (conflict) if it exists.

    `admin_names` are those of the cloud admin's certificates, which no tenant may have.
    """
    identity: JSON = {"names": list(dict.fromkeys(names))}
    if bundle is not None:
        identity["certificates"] = [bundle.pin]
    spec: JSON = {"identity": identity}
    if hosts is not None:
        spec["hosts"] = list(dict.fromkeys(hosts))
    body = TENANTS.body({"name": name}, spec=spec)
    problems = tenant_problems(body)
    admins = {admin.lower() for admin in admin_names}
    problems += [
        f"spec.identity.names: {cert_name!r} is the cloud admin's name"
        for cert_name in names
        if cert_name.lower() in admins
    ]
    problems += _claimed(await list_tenants(client), name, names=names, hosts=hosts or ())
    if problems:
        raise UsageError("; ".join(problems))
    try:
        return await client.create(TENANTS, body)
    except ApiError as error:
        raise _explained(error) from error


def _claimed(tenants: Sequence[JSON], name: str, *, names: Sequence[str], hosts: Sequence[str]) -> list[str]:
    """What other tenants have already: a certificate's name that two have lets neither in, a host has one tenant."""
    problems = []
    for other in tenants:
        title, spec = other["metadata"]["name"], other.get("spec") or {}
        if title == name:
            continue
        taken = {str(text).lower() for text in (spec.get("identity") or {}).get("names") or ()}
        problems += [
            f"spec.identity.names: {one!r} is a name of tenant {title}" for one in names if one.lower() in taken
        ]
        problems += [
            f"spec.hosts: {host!r} is a host of tenant {title}" for host in hosts if host in (spec.get("hosts") or ())
        ]
    return problems


async def set_hosts(client: KubeClient, name: str, hosts: Sequence[str]) -> bool:
    """Make `hosts` the tenant's hosts; False where they are already."""
    wanted = list(dict.fromkeys(hosts))
    if problems := _claimed(await list_tenants(client), name, names=(), hosts=wanted):
        raise UsageError("; ".join(problems))

    def change(spec: JSON) -> None:
        spec["hosts"] = wanted

    return await _change(client, name, change)


async def add_certificate(
    client: KubeClient, name: str, bundle: Bundle, *, now: datetime, overlap: timedelta | None
) -> None:
    """Accept the bundle's certificate.

    Those before it are accepted for `overlap` longer at most: with zero they go at once, with None nothing about
    them changes.
    """

    def change(spec: JSON) -> None:
        identity = spec["identity"]
        pins = [pin for pin in identity.get("certificates") or [] if _end(pin) > now]
        if overlap is not None:
            pins = [_ending(pin, now + overlap) for pin in pins] if overlap else []
        identity["certificates"] = [*pins, bundle.pin]
        if bundle.name not in identity["names"]:
            identity["names"].append(bundle.name)

    await _change(client, name, change)


async def suspend(client: KubeClient, name: str) -> None:
    """Have the gateway turn the tenant away."""

    def change(spec: JSON) -> None:
        spec["suspended"] = True

    await _change(client, name, change)


async def remove_tenant(client: KubeClient, name: str) -> Removed:
    """Suspend the tenant, then delete its Tenant object and its namespace, if that is ours.

    The Tenant is deleted before the namespace, so that the controller does not create the namespace again. A call after
    a fault continues where the last one stopped.
    """
    tenant = await read_tenant(client, name)
    if tenant is not None:
        try:
            await suspend(client, name)
        except ApiError as error:
            if error.status not in _REFUSED:
                raise  # without suspension there is no removal, except for a broken Tenant: it can only be deleted
        await delete_if_there(client, TENANTS, name, uid=tenant["metadata"]["uid"])
    namespace = await read_namespace(client, name)
    if namespace is None:
        return Removed(tenant is not None, "absent")
    if not is_ours(namespace, name):
        return Removed(tenant is not None, "foreign")
    metadata = namespace["metadata"]
    await delete_if_there(client, NAMESPACES, metadata["name"], uid=metadata["uid"])
    return Removed(tenant is not None, "deleted")


async def _change(client: KubeClient, name: str, change: Callable[[JSON], None]) -> bool:
    """Change the spec under the version that was read, again where another writer came between."""

    async def attempt() -> bool:
        tenant = await client.get(TENANTS, name)
        before = copy.deepcopy(tenant["spec"])
        change(tenant["spec"])
        if tenant["spec"] == before:
            return False
        await client.replace(TENANTS, name, tenant)
        return True

    return await until_no_conflict(attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS)


def _end(pin: JSON) -> datetime:
    return parse_until(pin["until"]) if pin.get("until") else _NEVER


def _ending(pin: JSON, end: datetime) -> JSON:
    """The pin, with an end that is `end` at the latest."""
    return {**pin, "until": stamp(min(end, _end(pin)))}


def _explained(error: ApiError) -> BerthError:
    if error.not_found:
        return BerthError(
            "the cluster does not know Tenants: berth crds infra | kubectl apply --server-side -f - makes them known"
        )
    return error
