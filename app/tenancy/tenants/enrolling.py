"""What the commands of `berth tenant` do, step by step, the lines they print, and a tenant as they show it.

Nothing is asked or parsed here. Every step is safe to repeat, and none takes what is not ours. No line says what is
in a key. A tenant is shown as its Tenant object says, and with what the infra cluster has of it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from app.errors import Terminal, Transient, UsageError
from app.kube.client import KubeClient
from app.kube.secrets import read_secret
from app.placement.model import PlacementOptions
from app.tenancy.authority import AuthorityOptions, authority_of, ensure_authority, ensure_signing, locate_authority
from app.tenancy.model import ADMIN_SECRET, CA_SECRET, SERVING_SECRET, link_of
from app.tenancy.namespace import Present, check_namespace, delete_namespace, ensure_namespace, read_namespace
from app.tenancy.tenants.bundles import FILES, MANIFEST_FILE, Bundle, Issuing, issue_bundle
from app.tenancy.tenants.changes import (
    Adding,
    add_certificate,
    check_change,
    check_new,
    create_tenant,
    delete_tenant,
    existing_tenant,
    read_tenant,
)
from app.tenancy.tenants.contents import Dpu, contents_of, counted, dpus_of
from app.text import moment, stamp
from app.wire import JSON
from app.workloads.model import tenant_namespace

AUTHORITY_FILES = frozenset(
    {"gateway/tls.crt", "gateway/tls.key", "gateway/ca.crt", "admin/ca.crt", "admin/admin.crt", "admin/admin.key"}
)
"""What `certify` writes, by its path in the directory."""
GIT_IGNORE = ".gitignore"
"""Beside the files, so that a bundle in a clone of any repository is never committed with its key."""
_IGNORE_ALL = b"*\n"


async def certify(client: KubeClient, *, options: AuthorityOptions, directory: Path | None, now: datetime) -> list[str]:
    """Make what is missing of the gateway's certificates and renew what is due; copy them into the directory, if any.

    The lines say what became of each Secret. Raises UsageError and ApiError as `ensure_authority`.
    """
    # Nothing is made where the directory holds other files, or where one of the Secrets cannot be read.
    if directory is not None:
        check_directory(directory, AUTHORITY_FILES)
    names = (CA_SECRET, SERVING_SECRET, ADMIN_SECRET)
    before = [await read_secret(client, name, namespace=options.namespace) for name in names]
    made = await ensure_authority(client, now=now, options=options)
    lines = []
    for secret in before:
        until = stamp(made.ends[secret.name])
        if not secret.version:
            lines.append(f"{secret.place} made, valid until {until}")
        elif not secret.ours:
            lines.append(f"{secret.place} is not managed by Berth and used as it is, valid until {until}")
        else:
            state = "renewed, valid" if secret.name in made.renewed else "is good"
            lines.append(f"{secret.place} {state} until {until}")
    if directory is not None:
        files = {f"gateway/{name}": content for name, content in made.serving.items()}
        files |= {f"admin/{name}": content for name, content in made.admin.items()}
        with staged({name: files[name] for name in files if name in AUTHORITY_FILES}, directory):
            lines.append(f"certificates and keys of the gateway and of the cloud admin are in {directory}")
    return [*lines, f"next renewal due {stamp(made.next_due)}: run this again then"]


async def add(client: KubeClient, adding: Adding, issuing: Issuing, *, now: datetime) -> list[str]:
    """Make what is missing of the tenant; the lines say what there is now."""
    name = adding.name
    present = await read_tenant(client, name)
    await check_namespace(client, name)
    if present is not None:
        lines = await _again(client, present, adding, issuing, now=now)
        return [*lines, await _place(client, name)]
    await check_new(client, adding)  # before a CA is made that no tenant has
    if adding.names:
        await create_tenant(client, adding, bundle=None)
        lines = [f"tenant {name} created; its certificates are those named {', '.join(adding.names)}"]
    else:
        bundle = await _issue(client, name, issuing, now=now)
        with staged(bundle.files, issuing.directory):
            await create_tenant(client, adding, bundle=bundle)
        lines = [f"tenant {name} created", *_issued(bundle, issuing)]
    return [*lines, await _place(client, name)]


async def _place(client: KubeClient, name: str) -> str:
    """Make the namespace of a tenant that is made; the line says what became of it."""
    try:
        made = await ensure_namespace(client, name)
    except (Transient, Terminal) as error:  # the controller makes up for this
        state = f"is not made yet, the controller will try again: {error}"
    else:
        state = "created" if made else "is in place"
    return f"namespace {tenant_namespace(name)} {state}"


async def _again(client: KubeClient, present: JSON, adding: Adding, issuing: Issuing, *, now: datetime) -> list[str]:
    name, identity = adding.name, present["spec"]["identity"]
    if present["metadata"].get("deletionTimestamp"):
        raise UsageError(f"tenant {name} is being removed; try again when it is gone")
    if adding.names and set(adding.names) != set(identity["names"]):
        raise UsageError(
            f"tenant {name} exists with other certificate names ({', '.join(identity['names'])}); change them with "
            f"`kubectl edit tenant {name}`"
        )
    if adding.hosts is not None:
        _check_hosts(name, present["spec"].get("hosts"), adding.hosts)
    state = " and is suspended" if present["spec"].get("suspended") else ""
    lines = [f"tenant {name} exists{state}"]
    if adding.force:
        return [*lines, *await _issue_one_more(client, present, issuing, now=now, overlap=None)]
    if identity.get("certificates") and not adding.names:
        lines.append(
            "no certificate issued: the tenant has one; --force issues another, berth tenant rotate replaces it"
        )
    return lines


def _check_hosts(name: str, present: list[str] | None, names: tuple[str, ...]) -> None:
    """Raise UsageError where `add` would have to change the hosts of a tenant: it takes nothing away from one."""
    if present is not None and set(present) == set(names):
        return
    more = [host for host in names if host not in (present or ())]
    fewer = [host for host in present or () if host not in names]
    commands = [
        f"`berth tenant host {verb} {name} {' '.join(hosts)}`"
        for verb, hosts in (("add", more), ("remove", fewer))
        if hosts
    ]
    has = "without a list of hosts" if present is None else f"with other hosts ({', '.join(present) or 'none'})"
    raise UsageError(f"tenant {name} exists {has}, and add does not change them: use {', and '.join(commands)}")


async def rotate(client: KubeClient, name: str, issuing: Issuing, *, now: datetime, overlap: timedelta) -> list[str]:
    """A new bundle; older certificates end after `overlap`, at once where that is zero."""
    present = await existing_tenant(client, name)
    lines = await _issue_one_more(client, present, issuing, now=now, overlap=overlap)
    ends = f"are accepted until {stamp(now + overlap)} at most" if overlap else "are refused from now on"
    return [*lines, f"older certificates {ends}"]


async def describe(client: KubeClient, name: str) -> str:
    """One line that says what `remove` would remove. Raises UsageError where there is nothing of that name."""
    tenant, present = await read_tenant(client, name), await read_namespace(client, name)
    ours = present is not None and present.ours
    if tenant is None and not ours:
        raise UsageError(f"there is no tenant {name}")
    what = [f"tenant {name}"] if tenant is not None else []
    if ours:
        what.append(f"namespace {tenant_namespace(name)} with {counted(await contents_of(client, name))}")
    return f"to be removed: {', and '.join(what)}"


async def remove(client: KubeClient, name: str) -> list[str]:
    """Suspend the tenant, then delete its Tenant object and its namespace, if that is ours.

    The Tenant is deleted before the namespace, so that the controller does not create the namespace again. A call after
    a fault continues where the last one stopped.
    """
    lines = [f"tenant {name} removed"] if await delete_tenant(client, name) else []
    deleted = await delete_namespace(client, name)
    if deleted is None:
        return lines
    return [*lines, f"namespace {tenant_namespace(name)} is {'being deleted' if deleted else 'not ours and stays'}"]


async def _issue_one_more(
    client: KubeClient, tenant: JSON, issuing: Issuing, *, now: datetime, overlap: timedelta | None
) -> list[str]:
    name = tenant["metadata"]["name"]
    if not tenant["spec"]["identity"].get("certificates"):
        # Pins beat names: with one, certificates of the tenant's own would be refused.
        raise UsageError(f"tenant {name} has certificates of its own: none is issued to it")
    await check_change(client, name)
    bundle = await _issue(client, name, issuing, now=now)
    with staged(bundle.files, issuing.directory):
        await add_certificate(client, name, bundle, now=now, overlap=overlap)
    return _issued(bundle, issuing)


async def _issue(client: KubeClient, name: str, issuing: Issuing, *, now: datetime) -> Bundle:
    check_directory(issuing.directory, FILES)
    if issuing.authority_files is None:
        secret = AuthorityOptions(namespace=issuing.namespace or await locate_authority(client))
        authority = await ensure_signing(client, now=now, options=secret)
    else:
        certificate, key = issuing.authority_files
        try:
            pair = {"tls.crt": certificate.read_bytes(), "tls.key": key.read_bytes()}
            authority = authority_of(pair, place=str(certificate))
        except OSError as error:
            raise UsageError(f"--ca-cert, --ca-key: cannot read {error.filename}: {error.strerror}") from error
    return issue_bundle(authority, name, issuing, now=now)


def _issued(bundle: Bundle, issuing: Issuing) -> list[str]:
    return [
        f"certificate {bundle.name}, valid until {bundle.pin['until']}, is in {issuing.directory}",
        f"give it to the agent: kubectl apply -f {issuing.directory / MANIFEST_FILE} (in the tenant's cluster)",
    ]


def check_directory(directory: Path, files: Collection[str]) -> None:
    """Raise UsageError where `directory` holds other files than these relative paths, which would be lost."""
    with _usage(f"read {directory}"):
        foreign = next(_foreign(directory, files), "") if directory.exists() else ""
    if foreign:
        raise UsageError(f"--out: {directory} holds other files ({foreign}); name an empty or a new directory")


@contextlib.contextmanager
def staged(files: Mapping[str, bytes], directory: Path) -> Iterator[None]:
    """Write the files aside; they replace what `directory` holds when the block ends. They are removed if it raises.

    All or nothing. Only the owner can read them, and git ignores them.
    So an error of the disk comes before the block changes anything else. Names may have folders. Raises UsageError.
    """
    check_directory(directory, files.keys())
    place = directory.absolute()
    with _usage(f"write to {place.parent}"):
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent, ignore_cleanup_errors=True)
    with aside as staging:
        fresh, old = Path(staging, "new"), Path(staging, "old")
        with _usage(f"write {directory}"):
            _write(fresh, {**files, GIT_IGNORE: _IGNORE_ALL})
        yield
        with _usage(f"write {directory}"):
            if place.exists():
                place.rename(old)
            fresh.rename(place)


def _foreign(directory: Path, files: Collection[str], prefix: str = "") -> Iterator[str]:
    for entry in sorted(directory.iterdir()):
        name = prefix + entry.name
        if any(file.startswith(f"{name}/") for file in files) and entry.is_dir() and not entry.is_symlink():
            yield from _foreign(entry, files, f"{name}/")
        elif name not in files and not (name == GIT_IGNORE and entry.is_file() and entry.read_bytes() == _IGNORE_ALL):
            yield name


@contextlib.contextmanager
def _usage(what: str) -> Iterator[None]:
    """Raise UsageError, which names `--out`, for an error of the disk."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"--out: cannot {what}: {error.strerror or error}") from error


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)  # whatever the umask says
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class Pin:
    """A certificate that is accepted; `days` are the whole days that are left, None where `until` is not given."""

    sha256: str
    until: str
    days: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A Tenant object and what belongs to it; `namespace` is None where it does not exist."""

    tenant: JSON
    cluster: str
    pins: tuple[Pin, ...]
    dpus: tuple[Dpu, ...]
    namespace: Present | None
    counts: Mapping[str, int]


async def summarize(client: KubeClient, name: str, *, placement: PlacementOptions, now: datetime) -> Summary:
    """Raises UsageError where there is no such tenant."""
    tenant = await existing_tenant(client, name)
    spec = tenant["spec"]
    pins = spec["identity"].get("certificates") or ()
    return Summary(
        tenant,
        link_of(tenant).cluster,
        tuple(_pin(pin, now) for pin in pins),
        tuple(await dpus_of(client, name, spec.get("hosts") or (), placement=placement)),
        await read_namespace(client, name),
        await contents_of(client, name),
    )


async def suspension(client: KubeClient, name: str) -> list[str]:
    """What follows where the tenant is suspended, one line each; [] where it is suspended already."""
    tenant = await existing_tenant(client, name)
    if tenant["spec"].get("suspended"):
        return []
    counts = counted(await contents_of(client, name))
    return [
        f"the gateway ends the streams of tenant {name} and refuses every call of its agent",
        f"namespace {tenant_namespace(name)} stays as it is and its Pods run on: {counts}",
        f"changes in the tenant's cluster do not arrive until `berth tenant resume {name}`",
    ]


def _pin(pin: JSON, now: datetime) -> Pin:
    end = moment(pin.get("until"))
    return Pin(pin["sha256"], pin.get("until") or "", None if end is None else (end - now).days)
