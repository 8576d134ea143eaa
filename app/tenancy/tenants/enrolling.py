"""What the commands of `berth tenant` do, step by step, and the lines they print. Asks and parses nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from app.certs.certificate_set import CertificateSet
from app.errors import Terminal, Transient, UsageError
from app.tenancy.authority.ensuring import AuthorityOptions, ensure_signing, locate_authority, signing_of_files
from app.tenancy.model import ADMIN_NAME
from app.tenancy.tenants.bundles import FILES, MANIFEST_FILE, Bundle, issue_bundle
from app.tenancy.tenants.changes import (
    add_certificate,
    check_namespace,
    create_tenant,
    read_tenant,
    remove_tenant,
    set_hosts,
)
from app.tenancy.tenants.contents import contents_of
from app.tenancy.tenants.namespace import ensure_namespace, is_ours, read_namespace
from app.tenancy.tenants.staging import check_directory, staged
from app.text import stamp
from app.workloads.model import SYSTEM_NAMESPACE, tenant_namespace

if TYPE_CHECKING:
    from app.kube.client import KubeClient
    from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Issuing:
    """Where a bundle goes and how its certificate is made; `authority_files`: certificate and key, else the Secret.

    `namespace` is the one of that Secret ("": where it is), `agent_namespace` the agent's in the tenant's cluster.
    """

    directory: Path
    days: int
    gateway: str
    authority_files: tuple[Path, Path] | None
    namespace: str = ""
    agent_namespace: str = SYSTEM_NAMESPACE


@dataclass(frozen=True, slots=True)
class Adding:
    """The tenant that is wanted; `names` are those of its own certificates, () where we issue them.

    `admin_names` are those of the cloud admin, which no tenant may have.
    """

    name: str
    hosts: tuple[str, ...] | None
    names: tuple[str, ...]
    force: bool
    admin_names: tuple[str, ...] = (ADMIN_NAME,)


async def add(client: KubeClient, adding: Adding, issuing: Issuing, *, now: datetime) -> list[str]:
    """Make what is missing of the tenant; the lines say what there is now."""
    name = adding.name
    present = await read_tenant(client, name)
    await check_namespace(client, name)
    if present is not None:
        lines = await _again(client, present, adding, issuing, now=now)
    elif adding.names:
        await _create(client, adding, names=adding.names, bundle=None)
        lines = [f"tenant {name} created; its certificates are those named {', '.join(adding.names)}"]
    else:
        bundle = await _issue(client, name, issuing, now=now)
        with staged(bundle.files, issuing.directory):
            await _create(client, adding, names=(bundle.name,), bundle=bundle)
        lines = [f"tenant {name} created", *_told(bundle, issuing)]
    return [*lines, await _namespace(client, name)]


async def _create(client: KubeClient, adding: Adding, *, names: tuple[str, ...], bundle: Bundle | None) -> None:
    await create_tenant(
        client, adding.name, names=names, bundle=bundle, hosts=adding.hosts, admin_names=adding.admin_names
    )


async def _namespace(client: KubeClient, name: str) -> str:
    """Comes last, and is not the end of the world: the tenant is made, and the controller makes up for this."""
    try:
        made = await ensure_namespace(client, name)
    except (Transient, Terminal) as error:
        return f"namespace {tenant_namespace(name)} is not made yet, the controller will try again: {error}"
    return f"namespace {tenant_namespace(name)} {'created' if made else 'is in place'}"


async def _again(client: KubeClient, present: JSON, adding: Adding, issuing: Issuing, *, now: datetime) -> list[str]:
    name, identity = adding.name, present["spec"]["identity"]
    if present["metadata"].get("deletionTimestamp"):
        raise UsageError(f"tenant {name} is being removed; try again when it is gone")
    if adding.names and set(adding.names) != set(identity["names"]):
        raise UsageError(
            f"tenant {name} exists with other certificate names ({', '.join(identity['names'])}); change them with "
            f"kubectl edit tenant {name}"
        )
    state = " and is suspended" if present["spec"].get("suspended") else ""
    lines = [f"tenant {name} exists{state}"]
    if adding.hosts is not None and await set_hosts(client, name, adding.hosts):
        lines.append(f"hosts are now {', '.join(adding.hosts)}")
    if not adding.force:
        pins = identity.get("certificates") or []
        if pins and not adding.names:
            lines.append("no certificate issued: it has one; --force issues one more, berth tenant rotate a successor")
        return lines
    _check_pinned(present)
    bundle = await _issue(client, name, issuing, now=now)
    with staged(bundle.files, issuing.directory):
        await add_certificate(client, name, bundle, now=now, overlap=None)
    return [*lines, *_told(bundle, issuing)]


async def rotate(client: KubeClient, name: str, issuing: Issuing, *, now: datetime, overlap: timedelta) -> list[str]:
    """A new bundle; certificates before it end after `overlap`, at once where that is zero."""
    present = await read_tenant(client, name)
    if present is None:
        raise UsageError(f"there is no tenant {name}")
    _check_pinned(present)
    bundle = await _issue(client, name, issuing, now=now)
    with staged(bundle.files, issuing.directory):
        await add_certificate(client, name, bundle, now=now, overlap=overlap)
    ends = f"are accepted until {stamp(now + overlap)} at most" if overlap else "are refused from now on"
    return [*_told(bundle, issuing), f"certificates before it {ends}"]


async def describe(client: KubeClient, name: str) -> str:
    """One line that says what `remove` would take away. Raises UsageError where there is nothing of that name."""
    present, namespace = await read_tenant(client, name), await read_namespace(client, name)
    ours = namespace is not None and is_ours(namespace, name)
    if present is None and not ours:
        raise UsageError(f"there is no tenant {name}")
    what = [f"tenant {name}"] if present is not None else []
    if ours:
        what.append(f"namespace {tenant_namespace(name)} with {await contents_of(client, name)}")
    return f"to be removed: {', and '.join(what)}"


async def remove(client: KubeClient, name: str) -> list[str]:
    """Remove the tenant; the lines say what became of its namespace."""
    removed = await remove_tenant(client, name)
    namespace = tenant_namespace(name)
    lines = [f"tenant {name} removed"] if removed.tenant else []
    match removed.namespace:
        case "deleted":
            lines.append(f"namespace {namespace} is being deleted")
        case "foreign":
            lines.append(f"namespace {namespace} is not ours and stays")
    return lines


def _check_pinned(tenant: JSON) -> None:
    """Issuing to a tenant with certificates of its own would shut those out, for pins beat names."""
    if not tenant["spec"]["identity"].get("certificates"):
        raise UsageError(f"tenant {tenant['metadata']['name']} has certificates of its own: none is issued to it")


async def _issue(client: KubeClient, name: str, issuing: Issuing, *, now: datetime) -> Bundle:
    check_directory(issuing.directory, FILES)
    authority = await _authority(client, issuing, now=now)
    return issue_bundle(
        authority,
        name,
        now=now,
        days=issuing.days,
        gateway=issuing.gateway,
        agent_namespace=issuing.agent_namespace,
    )


async def _authority(client: KubeClient, issuing: Issuing, *, now: datetime) -> CertificateSet:
    if issuing.authority_files is None:
        namespace = issuing.namespace or await locate_authority(client)
        return await ensure_signing(client, now=now, options=AuthorityOptions(namespace=namespace))
    certificate, key = issuing.authority_files
    try:
        return signing_of_files(certificate.read_bytes(), key.read_bytes(), source=str(certificate))
    except OSError as error:
        raise UsageError(f"--ca-cert, --ca-key: cannot read {error.filename}: {error.strerror}") from error


def _told(bundle: Bundle, issuing: Issuing) -> list[str]:
    return [
        f"certificate {bundle.name}, valid until {stamp(bundle.until)}, is in {issuing.directory}",
        f"give it to the agent: kubectl apply -f {issuing.directory / MANIFEST_FILE} (in the tenant's cluster)",
    ]
