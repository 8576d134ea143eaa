"""The writes of Tenant objects behind `berth tenant`. Every step is safe to repeat.

Hosts are added to a tenant and removed, with what the tenant loses by it said beforehand. A cluster is moved from one
Tenant to another, for an agent that gets another tenant's bundle for good.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.errors import ApiError, BerthError, UsageError
from app.kube.client import KubeClient
from app.kube.retry import every_item, if_there, until_no_conflict
from app.placement.model import PlacementOptions
from app.tenancy.model import CLUSTER, MOVED, holder_of, link_of, pins_until, tenant_certificate_name, tenant_problems
from app.tenancy.tenants.bundles import Bundle
from app.tenancy.tenants.contents import companions_on, dpus_of
from app.text import several, stamp
from app.wire import JSON
from app.workloads.model import TENANTS

_ATTEMPTS = 5
_REFUSED = (400, 403, 404, 422)


async def read_tenant(client: KubeClient, name: str) -> JSON | None:
    """None where there is none. Raises BerthError with the command where the cluster has no definition of Tenants."""
    try:
        return await client.get(TENANTS, name)
    except ApiError as error:
        if error.unserved:
            raise _explained(error) from error
        if error.not_found:
            return None
        raise


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


async def check_new(client: KubeClient, adding: Adding) -> None:
    """Raise what `create_tenant` would raise, before anything is made: the API server is asked in a dry run."""
    body = await _checked(client, adding, adding.names or (tenant_certificate_name(adding.name),))
    try:
        await client.dry_run(TENANTS, body)
    except ApiError as error:
        raise _explained(error) from error


async def check_change(client: KubeClient, name: str) -> None:
    """Raise ApiError where this user may not change the Tenant: it is written as it is, which changes nothing."""

    async def attempt() -> None:
        await client.replace(TENANTS, name, await client.get(TENANTS, name))

    await until_no_conflict(attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS)


async def create_tenant(client: KubeClient, adding: Adding, *, bundle: Bundle | None) -> None:
    """Create the Tenant object. Raises UsageError for one that could not work, ApiError (conflict) if it exists."""
    body = await _checked(client, adding, adding.names if bundle is None else (bundle.name,))
    if bundle is not None:
        body["spec"]["identity"]["certificates"] = [bundle.pin]
    try:
        await client.create(TENANTS, body)
    except ApiError as error:
        raise _explained(error) from error


async def _checked(client: KubeClient, adding: Adding, names: tuple[str, ...]) -> JSON:
    """The Tenant with these names of certificates. Raises UsageError for one that could not work."""
    hosts = adding.hosts
    identity: JSON = {"names": list(dict.fromkeys(names))}
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
    return body


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
            "the cluster does not know Tenants: `berth crds infra | kubectl apply --server-side -f -` makes them known"
        )
    return error


@dataclass(frozen=True, slots=True)
class HostChange:
    """A change of `spec.hosts`; `before` is None where the Tenant has no such list.

    `nodes` lose `label`, that of the tenant, and run this number of its companions.
    """

    tenant: str
    before: list[str] | None
    after: list[str]
    label: str
    nodes: tuple[str, ...] = ()
    companions: int = 0

    def losses(self) -> list[str]:
        """What the tenant loses, one line each; [] where it loses nothing."""
        lines = [f"node {node} loses its label {self.label}={self.tenant}" for node in self.nodes]
        if self.before and not self.after:
            lines.append(f"tenant {self.tenant} has no host then: none of its Pods can be placed")
        if self.companions:
            lines.append(
                f"{several(self.companions, 'companion')} of tenant {self.tenant} run on these nodes: they run on "
                "until they end or are deleted, and cannot be placed there again"
            )
        return lines


async def plan_hosts(
    client: KubeClient,
    name: str,
    *,
    placement: PlacementOptions,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
) -> HostChange:
    """The change, before anything is written. Raises UsageError where it is not possible."""
    label = placement.tenant_node_label
    tenant = await existing_tenant(client, name)
    before = tenant["spec"].get("hosts")
    if remove and before is None:
        raise UsageError(f"tenant {name} lists no hosts: remove the label by hand, `kubectl label node NODE {label}-`")
    have = before or []
    if unknown := [host for host in remove if host not in have]:
        raise UsageError(f"{', '.join(unknown)}: not among the hosts of tenant {name} ({', '.join(have) or 'none'})")
    after = [host for host in dict.fromkeys((*have, *add)) if host not in remove]
    if problems := tenant_problems({**tenant, "spec": {**tenant["spec"], "hosts": after}}):
        raise UsageError("; ".join(problems))
    await check_claims(client, name, hosts=[host for host in after if host not in have])
    lost = [dpu.node for dpu in await dpus_of(client, name, (), placement=placement) if dpu.host not in after]
    companions = await companions_on(client, name, lost) if lost else 0
    return HostChange(name, before, after, label, tuple(lost), companions)


async def change_hosts(client: KubeClient, change: HostChange) -> list[str]:
    """Write the change; the lines say what there is now. Raises UsageError if `before` is outdated."""

    def write(spec: JSON) -> None:
        if spec.get("hosts") != change.before:
            raise UsageError(f"the hosts of tenant {change.tenant} have changed meanwhile: nothing written, try again")
        spec["hosts"] = change.after

    await change_spec(client, change.tenant, write)
    return [f"tenant {change.tenant} has hosts {', '.join(change.after) or '(none)'}"]


async def cluster_to_move(client: KubeClient, source: str, target: str) -> str:
    """The cluster of `source`, or "" where `target` has it already. Raises UsageError where it cannot be moved."""
    links = {item["metadata"]["name"]: link_of(item) for item in await list_tenants(client)}
    if source == target or source not in links:
        problem = "that is the tenant itself" if source == target else f"there is no tenant {source}"
        raise UsageError(f"--move: {problem}; want the tenant that has the cluster now")
    cluster = links[source].cluster
    if not cluster:
        raise UsageError(
            f"--move: no cluster is noted on tenant {source}. Leave --move out: tenant {target} gets the cluster "
            "of the first agent that calls"
        )
    holder = holder_of(cluster, links.items())
    if holder not in (source, target):
        raise UsageError(f"--move: the cluster of tenant {source} belongs to tenant {holder}: --move {holder}")
    noted = links[target].cluster if target in links else ""
    if noted not in ("", cluster) and holder_of(noted, links.items()) == target:
        raise UsageError(
            f"--move: tenant {target} has cluster {noted}, and a tenant has one. If that one is gone for good: "
            f"`kubectl annotate tenant {target} {CLUSTER}-`"
        )
    return "" if holder == target else cluster


async def move_cluster(client: KubeClient, cluster: str, *, source: str, target: str, now: datetime) -> list[str]:
    """Note the cluster on `target`, as taken over now; the lines say what follows. Safe to repeat.

    The note on `source` stays: the gateway removes by it what agents of `source` have written of the cluster.
    """
    if not cluster:
        return [f"tenant {target} has the cluster of tenant {source} already"]

    async def attempt() -> None:
        obj = await client.get(TENANTS, target)
        patch = {"metadata": {"annotations": {CLUSTER: cluster, MOVED: stamp(now)}}}
        version = obj["metadata"]["resourceVersion"]
        await client.patch(TENANTS, target, patch, patch_type="merge", version=version)

    await until_no_conflict(attempt, sleep=asyncio.sleep, attempts=_ATTEMPTS)
    refused = f"the gateway refuses agents of tenant {source} there"
    otherwise = f"until its agent in another cluster removes them or you do: `berth tenant remove {source}`"
    return [
        f"cluster {cluster} belongs to tenant {target} from now on: {refused}",
        f"workloads of tenant {source} are removed when the agent of tenant {target} has sent its own",
        f"rules and UVS objects of tenant {source} and their Pods stay, {otherwise}",
    ]
