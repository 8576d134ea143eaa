"""The writes of Tenant objects behind `berth tenant`. Every step is safe to repeat."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.errors import ApiError, BerthError, UsageError
from app.kube.client import KubeClient
from app.kube.retry import every_item, get_or_none, if_there, until_no_conflict
from app.tenancy.model import pins_until, tenant_problems
from app.tenancy.tenants.bundles import Bundle
from app.wire import JSON
from app.workloads.model import TENANTS

_ATTEMPTS = 5
_REFUSED = (400, 403, 404, 422)


async def read_tenant(client: KubeClient, name: str) -> JSON | None:
    return await get_or_none(client, TENANTS, name)


async def existing_tenant(client: KubeClient, name: str) -> JSON:
    """The Tenant object. Raises UsageError where there is none."""
    tenant = await read_tenant(client, name)
    if tenant is None:
        raise UsageError(f"there is no tenant {name}")
    return tenant


async def list_tenants(client: KubeClient) -> list[JSON]:
    try:
        items = [item async for item in every_item(lambda token: client.list_page(TENANTS, continue_token=token))]
    except ApiError as error:
        raise _explained(error) from error
    return sorted(items, key=lambda item: str(item["metadata"]["name"]))


@dataclass(frozen=True, slots=True)
class Adding:
    """The tenant that is wanted; `names` are those of its own certificates, () where we issue them.

    `admin_names` are those of the cloud admin, which no tenant may have; `force` issues one more certificate.
    """

    name: str
    hosts: tuple[str, ...] | None
    names: tuple[str, ...]
    force: bool
    admin_names: tuple[str, ...]


async def create_tenant(client: KubeClient, adding: Adding, *, bundle: Bundle | None) -> None:
    """Create the Tenant object. Raises UsageError for one that could not work, ApiError (conflict) if it exists."""
    names, hosts = (bundle.name,) if bundle is not None else adding.names, adding.hosts
    identity: JSON = {"names": list(dict.fromkeys(names))}
    if bundle is not None:
        identity["certificates"] = [bundle.pin]
    spec: JSON = {"identity": identity}
    if hosts is not None:
        spec["hosts"] = list(dict.fromkeys(hosts))
    body = TENANTS.body({"name": adding.name}, spec=spec)
    admins = {admin.lower() for admin in adding.admin_names}
    problems = [
        *tenant_problems(body),
        *(f"spec.identity.names: {name!r} is the cloud admin's name" for name in names if name.lower() in admins),
        *_claimed(await list_tenants(client), adding.name, names=names, hosts=hosts or ()),
    ]
    if problems:
        raise UsageError("; ".join(problems))
    try:
        await client.create(TENANTS, body)
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
            f"spec.identity.names: {name!r} is a name of tenant {title}" for name in names if name.lower() in taken
        ]
        problems += [
            f"spec.hosts: {host!r} is a host of tenant {title}" for host in hosts if host in (spec.get("hosts") or ())
        ]
    return problems


async def check_claims(client: KubeClient, name: str, *, hosts: Sequence[str]) -> None:
    """Raise UsageError where another tenant has one of the hosts."""
    if problems := _claimed(await list_tenants(client), name, names=(), hosts=hosts):
        raise UsageError("; ".join(problems))


async def set_suspended(client: KubeClient, name: str, *, suspended: bool) -> bool:
    """Suspend or resume the tenant; False where nothing had to change."""
    return await change_spec(
        client,
        name,
        lambda spec: spec.update(suspended=suspended) if bool(spec.get("suspended")) != suspended else None,
    )


async def add_certificate(
    client: KubeClient, name: str, bundle: Bundle, *, now: datetime, overlap: timedelta | None
) -> None:
    """Accept the bundle's certificate.

    Those before it are accepted for `overlap` longer at most: with zero they go at once, with None nothing about
    them changes.
    """

    def change(spec: JSON) -> None:
        identity = spec["identity"]
        before = identity.get("certificates") or []
        identity["certificates"] = [*pins_until(before, now=now, overlap=overlap), bundle.pin]
        if bundle.name not in identity["names"]:
            identity["names"].append(bundle.name)

    await change_spec(client, name, change)


async def delete_tenant(client: KubeClient, name: str) -> bool:
    """Suspend the tenant, so that the gateway refuses it, then delete its Tenant object; False where there is none."""
    tenant = await read_tenant(client, name)
    if tenant is None:
        return False
    try:
        await set_suspended(client, name, suspended=True)
    except ApiError as error:
        if error.status not in _REFUSED:
            raise  # without suspension there is no removal, except for a broken Tenant: it can only be deleted
    await if_there(client.delete(TENANTS, name, uid=tenant["metadata"]["uid"]))
    return True


async def change_spec(client: KubeClient, name: str, change: Callable[[JSON], None]) -> bool:
    """Change the spec under the version that was read, and try again after a conflict; False where nothing changed."""

    async def attempt() -> bool:
        tenant = await client.get(TENANTS, name)
        before = copy.deepcopy(tenant["spec"])
        change(tenant["spec"])
        if tenant["spec"] == before:
            return False
        await client.replace(TENANTS, name, tenant)
        return True

    return await until_no_conflict(attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS)


def _explained(error: ApiError) -> BerthError:
    if error.not_found:
        return BerthError(
            "the cluster does not know Tenants: berth crds infra | kubectl apply --server-side -f - makes them known"
        )
    return error
