"""Reads Tenant objects: what the gateway and the controllers keep of one.

Pure. Refuses what it cannot read wholly (ValueError): a tenant that is half understood could let the wrong one in.
What the API server's schema and the webhook refuse beforehand is refused here again, for neither may be in the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from app.kube.names import DNS_LABEL_LIMIT, check_dns_label, check_label_value
from app.tenancy.model import PinnedCertificate, Tenant
from app.wire import JSON
from app.workloads.model import TENANT_NAMESPACE_PREFIX, tenant_namespace

NAME_LIMIT = DNS_LABEL_LIMIT - len(TENANT_NAMESPACE_PREFIX)
"""So that the tenant's namespace is a DNS label."""
CERTIFICATE_NAME_LIMIT = 253

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PRINTABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)


def project_tenant(obj: JSON) -> Tenant:
    """The Tenant that a Tenant object says; one that is being deleted counts as suspended.

    Raises ValueError, with every problem by its path, where the object cannot be used.
    """
    problems = tenant_problems(obj)
    if problems:
        raise ValueError("; ".join(problems))
    metadata, spec = obj["metadata"], obj["spec"]
    hosts = spec.get("hosts")
    return Tenant(
        name=metadata["name"],
        namespace=tenant_namespace(metadata["name"]),
        uid=str(metadata.get("uid") or ""),
        names=tuple(spec["identity"]["names"]),
        certificates=tuple(
            PinnedCertificate(pin["sha256"], parse_until(pin["until"]) if pin.get("until") else None)
            for pin in spec["identity"].get("certificates") or ()
        ),
        hosts=None if hosts is None else tuple(hosts),
        suspended=bool(spec.get("suspended")) or bool(metadata.get("deletionTimestamp")),
    )


def tenant_problems(obj: JSON) -> list[str]:
    """What is wrong with a Tenant, one line each, beginning with the field's path; [] for a good one."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    spec = obj.get("spec")
    problems = [] if not isinstance(metadata, dict) or "name" not in metadata else list(_name_problems(name))
    if name is None:
        problems.append("metadata.name: a tenant has a name of its own, generateName gives it none")
    if not isinstance(spec, dict):
        return [*problems, "spec: want an object with the tenant's identity"]
    problems += _identity_problems(spec.get("identity"))
    problems += _host_problems(spec.get("hosts"))
    if not isinstance(spec.get("suspended", False), bool | None):
        problems.append("spec.suspended: want true or false")
    return problems


def name_problem(name: object) -> str:
    """Why this cannot be the name of a tenant; "" where it can."""
    if not isinstance(name, str):
        return "want a string"
    if len(name) > NAME_LIMIT:
        return (
            f"{name[:NAME_LIMIT]!r}… has {len(name)} characters: use at most {NAME_LIMIT}, the namespace is tenant-NAME"
        )
    try:
        check_dns_label(name)
    except ValueError as error:
        return str(error)
    return ""


def parse_until(text: object) -> datetime:
    """RFC 3339 with a time zone. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{text!r} is no time: use the form 2026-01-31T12:00:00Z")
    return moment.astimezone(UTC)


def _name_problems(name: object) -> Iterator[str]:
    problem = "" if name is None else name_problem(name)
    if problem:
        yield f"metadata.name: {problem}"


def _identity_problems(identity: object) -> Iterator[str]:
    if not isinstance(identity, dict):
        yield "spec.identity: want an object with the names of the tenant's certificates"
        return
    names = identity.get("names")
    if not isinstance(names, list) or not names:
        yield "spec.identity.names: want at least one name: the common name or a DNS name of the tenant's certificates"
    else:
        for index, name in enumerate(names):
            where = f"spec.identity.names[{index}]"
            if not isinstance(name, str) or len(name) > CERTIFICATE_NAME_LIMIT or not _PRINTABLE.fullmatch(name):
                yield f"{where}: want 1 to {CERTIFICATE_NAME_LIMIT} printable ASCII characters, no spaces at the ends"
            elif name in names[:index]:
                yield f"{where}: {name!r} stands twice"
    yield from _certificate_problems(identity.get("certificates"))


def _certificate_problems(certificates: object) -> Iterator[str]:
    if certificates is None:
        return
    if not isinstance(certificates, list):
        yield "spec.identity.certificates: want a list"
        return
    seen: set[Any] = set()
    for index, pin in enumerate(certificates):
        where = f"spec.identity.certificates[{index}]"
        if not isinstance(pin, dict):
            yield f"{where}: want an object with sha256"
            continue
        sha256 = pin.get("sha256")
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            yield f"{where}.sha256: want the SHA-256 of the certificate's DER form: 64 lower-case hexadecimal digits"
        elif sha256 in seen:
            yield f"{where}.sha256: {sha256} stands twice"
        else:
            seen.add(sha256)
        if pin.get("until") is not None:
            try:
                parse_until(pin["until"])
            except ValueError as error:
                yield f"{where}.until: {error}"


def _host_problems(hosts: object) -> Iterator[str]:
    if hosts is None:
        return
    if not isinstance(hosts, list):
        yield "spec.hosts: want a list of names of hosts"
        return
    for index, host in enumerate(hosts):
        where = f"spec.hosts[{index}]"
        if not isinstance(host, str) or not host:
            yield f"{where}: want the name of a host, as the label of its DPU has it"
            continue
        try:
            check_label_value(host)
        except ValueError as error:
            yield f"{where}: {error}"
            continue
        if host in hosts[:index]:
            yield f"{where}: {host!r} stands twice"
