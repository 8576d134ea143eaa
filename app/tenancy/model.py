"""Tenants: the identities that Tenant objects bind to certificates, and how such an object is read. Pure.

What cannot be read wholly is refused: a tenant that is half understood could let the wrong one in. What the API
server's schema and the webhook refuse beforehand is refused here again, for neither may be in the way.

Of its agent, a Tenant has noted: its cluster, the last call that was accepted, the last one refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from app.kube.conditions import status_of
from app.kube.names import DNS_LABEL_LIMIT, check_dns_label, check_label_value
from app.pace import step
from app.text import moment, stamp
from app.wire import JSON
from app.workloads.model import TENANT_NAMESPACE_PREFIX, tenant_namespace

CLUSTER = "berth.dev/cluster"
"""Annotation on a Tenant, by the gateway: the cluster of its agent at first sight; calls from another are refused."""
MOVED = "berth.dev/cluster-moved"
"""Annotation on a Tenant, by `berth tenant add --move`: when it took its cluster over from another Tenant."""
CONTACT_SECONDS = 60.0
"""How often the gateway notes on a Tenant that its agent is connected."""
ADMIN_NAME = "cloud-admin.local"
"""The common name (or DNS name) of the cloud admin's certificate, as in Universe's deployment."""
GATEWAY_NAME = "api-gateway.local"
"""A name that the gateway's certificate answers to wherever it runs."""
CLUSTER_KEY = "berth-cluster"
"""Metadata of an agent's calls: the UID of namespace kube-system of its cluster, which no two clusters share."""
CONNECTED = "Connected"
"""The condition of a Tenant that says whether the gateway accepts its agent. Its reasons follow."""
AGENT_CONNECTED = "AgentConnected"
"""The only one with status True: a call was accepted lately."""
NO_CONTACT = "NoContact"
"""No call of the tenant was accepted or refused yet; the status is Unknown."""
AGENT_SILENT = "AgentSilent"
"""The last call that was accepted is too old, and none was refused since."""
CERTIFICATE_REFUSED = "CertificateRefused"
"""The certificate is not pinned, its pin has ended, or all pins have ended."""
CLUSTER_TAKEN = "ClusterTaken"
"""The agent runs in the cluster of another Tenant."""
OTHER_CLUSTER = "OtherCluster"
"""The agent runs in another cluster than the one that is noted on the Tenant."""
SUSPENDED = "Suspended"
NAME_LIMIT = DNS_LABEL_LIMIT - len(TENANT_NAMESPACE_PREFIX)
"""So that the tenant's namespace is a DNS label."""
CERTIFICATE_NAME_LIMIT = 253
MOST_NAMES, MOST_CERTIFICATES, MOST_HOSTS = 32, 32, 4096
"""Of one tenant, as the CustomResourceDefinition has it: an object may be stored from before that."""
_NEVER = datetime.max.replace(tzinfo=UTC)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PRINTABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)
CA_SECRET = "berth-gateway-ca"  # noqa: S105 - the name of an object
SERVING_SECRET = "berth-gateway-tls"  # noqa: S105 - the name of an object
ADMIN_SECRET = "berth-cloud-admin"  # noqa: S105 - the name of an object


def tenants_role(role: str) -> str:
    """The name of the ClusterRole that a role is bound to in tenants' namespaces."""
    return f"berth-{role}-tenants"


@dataclass(frozen=True, slots=True)
class Refused:
    """The last call of a tenant that was refused: a reason of the condition Connected, and the gateway's answer.

    `cluster` is the one that the call named, where that is why.
    """

    at: datetime
    reason: str
    message: str
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """What is noted on a Tenant of its agent.

    `cluster` is the one it was first seen in ("": none yet), `moved` when it took that over from another Tenant.
    `contact` is the last call that was accepted.
    """

    cluster: str = ""
    moved: datetime | None = None
    contact: datetime | None = None
    refused: Refused | None = None
    created: str = ""


def link_of(obj: JSON) -> Link:
    """What is noted of the agent of a Tenant object. What cannot be read counts as absent."""
    metadata, status = obj["metadata"], obj.get("status")
    annotations = metadata.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    status = status if isinstance(status, dict) else {}
    cluster, refusal = annotations.get(CLUSTER), status.get("lastRefusal")
    refused = None
    if isinstance(refusal, dict) and (at := moment(refusal.get("time"))):
        texts = (str(refusal.get(name) or "") for name in ("reason", "message", "cluster"))
        refused = Refused(at, *texts)
    return Link(
        cluster=cluster if isinstance(cluster, str) else "",
        moved=moment(annotations.get(MOVED)),
        contact=moment(status.get("lastContact")),
        refused=refused,
        created=str(metadata.get("creationTimestamp") or ""),
    )


def holder_of(cluster: str, noted: Iterable[tuple[str, Link]]) -> str:
    """Which of these Tenants, by name, has the cluster; "" where it is noted on none.

    The one that took it over last; where none did, the one that was created first. An older version of Berth noted one
    cluster on several Tenants.
    """
    if not cluster:
        return ""
    holders = [(name, link) for name, link in noted if link.cluster == cluster]
    moved = [(link.moved, name) for name, link in holders if link.moved is not None]
    if moved:
        return max(moved)[1]
    return min(((link.created, name) for name, link in holders), default=("", ""))[1]


@dataclass(frozen=True, slots=True)
class PinnedCertificate:
    """A certificate that is accepted: SHA-256 of its DER form in lower-case hex, and until when (None: no end)."""

    sha256: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Tenant:
    """A Tenant object: `names` are the common or DNS names of its certificates.

    Where `certificates` are pinned, a name alone is not enough. `hosts` are the names of its hosts, or None where
    Berth does not set the labels of the tenant's DPU nodes. `link` is what is noted of its agent; only the
    gateway reads it here.
    """

    name: str
    namespace: str
    uid: str
    names: tuple[str, ...]
    certificates: tuple[PinnedCertificate, ...] = ()
    hosts: tuple[str, ...] | None = None
    suspended: bool = False
    link: Link = field(default_factory=Link)


def tenant_certificate_name(tenant: str) -> str:
    """The common name of the certificates that `berth tenant add` issues."""
    return f"{tenant}.tenant.local"


def tenant_state(obj: JSON) -> str:
    """One word for the state of a Tenant object: removing, error, suspended, ready or pending."""
    status = status_of(obj)
    if obj["metadata"].get("deletionTimestamp"):
        return "removing"
    if status.get("result") == "error":
        return "error"
    if (obj.get("spec") or {}).get("suspended"):
        return "suspended"
    return "ready" if status.get("result") == "success" else "pending"


def project_tenant(obj: JSON) -> Tenant:
    """The Tenant of a Tenant object; one that is being deleted counts as suspended. ValueError with every problem."""
    if problems := tenant_problems(obj):
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
    metadata, spec, problems = obj.get("metadata"), obj.get("spec"), []
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name is None:
        problems.append("metadata.name: a tenant has a name of its own, generateName gives it none")
    elif problem := name_problem(name):
        problems.append(f"metadata.name: {problem}")
    if not isinstance(spec, dict):
        return [*problems, "spec: want an object with the tenant's identity"]
    problems += _identity_problems(spec.get("identity"))
    hosts = spec.get("hosts")
    if hosts is not None:
        problems += _list_problems("spec.hosts", hosts, MOST_HOSTS, "want a list of names of hosts", _host_problem)
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
    return _problem(check_dns_label, name)


def parse_until(text: object) -> datetime:
    """RFC 3339 with a time zone. Raises ValueError."""
    until = moment(text)
    if until is None:
        raise ValueError(f"{text!r} is not a time: use the form 2026-01-31T12:00:00Z")
    return until.astimezone(UTC)


def pins_until(pins: Sequence[JSON], *, now: datetime, overlap: timedelta | None) -> list[JSON]:
    """The pinned certificates that have not ended, with an end `overlap` from now at the latest (None: as it is)."""
    ends = [parse_until(pin["until"]) if pin.get("until") else _NEVER for pin in pins]
    left = [(pin, end) for pin, end in zip(pins, ends, strict=True) if end > now]
    if overlap is None:
        return [pin for pin, _ in left]
    return [{**pin, "until": stamp(min(now + overlap, end))} for pin, end in left] if overlap else []


def _identity_problems(identity: object) -> Iterator[str]:
    if not isinstance(identity, dict):
        yield "spec.identity: want an object with the names of the tenant's certificates"
        return
    want = "want at least one name: the common name or a DNS name of the tenant's certificates"
    names = identity.get("names") or None
    yield from _list_problems("spec.identity.names", names, MOST_NAMES, want, _certificate_name_problem)
    certificates = identity.get("certificates")
    if certificates is None:
        return
    if not isinstance(certificates, list):
        yield "spec.identity.certificates: want a list"
        return
    if len(certificates) > MOST_CERTIFICATES:
        yield f"spec.identity.certificates: want at most {MOST_CERTIFICATES}, got {len(certificates)}"
        return
    seen = set[str]()
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
        if pin.get("until") is not None and (problem := _problem(parse_until, pin["until"])):
            yield f"{where}.until: {problem}"


def _list_problems(
    where: str, values: object, most: int, want: str, problem_of: Callable[[object], str]
) -> Iterator[str]:
    """In a list with more than `most` entries none is looked at."""
    if not isinstance(values, list):
        yield f"{where}: {want}"
        return
    if len(values) > most:
        yield f"{where}: want at most {most}, got {len(values)}"
        return
    seen = set[object]()
    for index, value in enumerate(values):
        step()
        if problem := problem_of(value):
            yield f"{where}[{index}]: {problem}"
        elif value in seen:
            yield f"{where}[{index}]: {value!r} stands twice"
        else:
            seen.add(value)


def _certificate_name_problem(name: object) -> str:
    if isinstance(name, str) and len(name) <= CERTIFICATE_NAME_LIMIT and _PRINTABLE.fullmatch(name):
        return ""
    return f"want 1 to {CERTIFICATE_NAME_LIMIT} printable ASCII characters, no spaces at the ends"


def _host_problem(host: object) -> str:
    if not isinstance(host, str) or not host:
        return "want the name of a host, as the label of its DPU has it"
    return _problem(check_label_value, host)


def _problem(check: Callable[[str], object], text: str) -> str:
    try:
        check(text)
    except ValueError as error:
        return str(error)
    return ""
