"""Who calls: from a client certificate and the Tenant objects to a tenant, the cloud admin, or a refusal.

Pure; the clock is passed in. TLS has verified the certificate's chain when this is asked. What a caller says of
itself (`tenant-id`) never widens what its certificate allows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from app.certs.issuing import signed_by
from app.tenancy.model import CERTIFICATE_REFUSED, CLUSTER, CLUSTER_KEY, CLUSTER_TAKEN, OTHER_CLUSTER, SUSPENDED, Tenant
from app.workloads.model import tenant_namespace

Audience = Literal["tenant", "admin", "anyone"]
"""The callers that a service is for; "anyone" is every holder of a certificate of ours (health, reflection)."""
Reason = Literal[
    "no_certificate",
    "not_valid",
    "unknown",
    "ambiguous",
    "admin_ca",
    "admin_certificate",
    "suspended",
    "not_pinned",
    "pin_ended",
    "tenant_id",
    "wrong_service",
    "cluster",
    "cluster_taken",
]
CONDITION_REASONS: dict[Reason, str] = {
    "suspended": SUSPENDED,
    "not_pinned": CERTIFICATE_REFUSED,
    "pin_ended": CERTIFICATE_REFUSED,
    "tenant_id": CERTIFICATE_REFUSED,
    "cluster": OTHER_CLUSTER,
    "cluster_taken": CLUSTER_TAKEN,
}
"""What the condition Connected calls them, for those that say which tenant they are about."""
_CLUSTER = re.compile(r"[0-9A-Za-z][0-9A-Za-z._:-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What counts of a client certificate: CN and DNS names in lower case, validity, SHA-256 of the DER form.

    `admin_names` are those that may be the cloud admin's: the DNS names, or the only CN where there are no alternative
    names of any kind; none without the extended key usage clientAuth.
    """

    names: tuple[str, ...]
    admin_names: tuple[str, ...]
    sha256: str
    not_before: datetime
    not_after: datetime

    @property
    def name(self) -> str:
        """What logs call it."""
        return self.names[0] if self.names else ""


@dataclass(frozen=True, slots=True)
class Caller:
    """A recognized caller; `tenant` is None for the cloud admin and for a call that is open to anyone."""

    certificate: Certificate
    tenant: Tenant | None

    @property
    def label(self) -> str:
        """The tenant's name, else the certificate's: what limits are counted under."""
        return self.tenant.name if self.tenant is not None else f"certificate {self.certificate.name}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not served. The message goes to the caller and names nothing that its certificate does not.

    `tenant` is the one whose certificate it is, "" where that is not known; `cluster` the one that the call named.
    """

    reason: Reason
    message: str
    name: str = ""
    tenant: str = ""
    cluster: str = ""


@lru_cache(maxsize=4096)  # as many as connections: open streams are looked at every second
def read_certificate(pem: bytes) -> Certificate:
    """Raises ValueError for what is not a certificate."""
    parsed = x509.load_pem_x509_certificate(pem)
    try:
        extensions = {extension.oid: extension.value for extension in parsed.extensions}
    except (x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise ValueError(str(error)) from error
    common = [str(entry.value).lower() for entry in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    dns: list[str] = []
    for_admin = common if len(common) == 1 else []
    if isinstance(names := extensions.get(ExtensionOID.SUBJECT_ALTERNATIVE_NAME), x509.SubjectAlternativeName):
        for_admin = dns = [name.lower() for name in names.get_values_for_type(x509.DNSName)]
    usages = extensions.get(ExtensionOID.EXTENDED_KEY_USAGE)
    if not isinstance(usages, x509.ExtendedKeyUsage) or ExtendedKeyUsageOID.CLIENT_AUTH not in usages:
        for_admin = []
    return Certificate(
        names=tuple(dict.fromkeys(common + dns)),
        admin_names=tuple(for_admin),
        sha256=hashlib.sha256(parsed.public_bytes(Encoding.DER)).hexdigest(),
        not_before=parsed.not_valid_before_utc,
        not_after=parsed.not_valid_after_utc,
    )


@lru_cache(maxsize=256)
def issued_by(pem: bytes, authorities: bytes) -> bool:
    """Whether one of these PEM authorities, or its bridge, has signed the certificate itself, not an intermediate."""
    certificate = x509.load_pem_x509_certificate(pem)
    return any(signed_by(certificate, authority) for authority in x509.load_pem_x509_certificates(authorities))


def independent_authorities(pem: bytes, *, links: bytes) -> int:
    """How many authorities there are (PEM) that know nothing of each other.

    Those of one name or one key, and two of which one has signed the other, are an authority and its successor.
    `links` are certificates (PEM) that count for that alone: a bridge stands in the chain of what its CA has issued.
    """
    counted = x509.load_pem_x509_certificates(pem)
    groups: list[list[x509.Certificate]] = []
    for certificate in counted + x509.load_pem_x509_certificates(links):
        related = [group for group in groups if any(_related(certificate, other) for other in group)]
        joined = [certificate, *(member for group in related for member in group)]
        groups = [*(group for group in groups if group not in related), joined]
    return sum(any(member in counted for member in group) for group in groups)


def _related(certificate: x509.Certificate, other: x509.Certificate) -> bool:
    same = certificate.subject == other.subject or certificate.public_key() == other.public_key()
    return same or signed_by(certificate, other) or signed_by(other, certificate)


def identify(
    pem: bytes | None,
    *,
    audience: Audience,
    tenant_ids: Sequence[str],
    tenants_named: Callable[[str], Iterable[Tenant]],
    admin_names: frozenset[str],
    now: datetime,
    admin_ca: bytes | None = None,
) -> Caller | Refusal:
    """`tenants_named` finds the tenants that list a name; `tenant_ids` are the values of the metadata `tenant-id`.

    Where there is an `admin_ca` (PEM), the cloud admin's names count in certificates alone that it has issued.
    """
    if not pem:
        return Refusal("no_certificate", "a client certificate is required")
    try:
        certificate = read_certificate(pem)
    except ValueError:
        return Refusal("no_certificate", "the client certificate cannot be read")
    if not certificate.not_before <= now < certificate.not_after:
        return Refusal("not_valid", "the client certificate is not valid at this time", certificate.name)
    if audience == "anyone":
        return Caller(certificate, None)
    admin = not admin_names.isdisjoint(certificate.names)
    tenants = {tenant.name: tenant for name in certificate.names for tenant in tenants_named(name)}
    tenant = next(iter(tenants.values()), None)
    reason: Reason | None = None
    if len(tenants) + admin > 1:
        reason, message = "ambiguous", "the client certificate is bound to more than one identity"
    elif admin and admin_names.isdisjoint(certificate.admin_names):
        reason = "admin_certificate"
        message = "the cloud admin's certificate needs the usage clientAuth, and its name as a DNS name if it has any"
    elif admin and admin_ca is not None and not issued_by(pem, admin_ca):
        reason = "admin_ca"
        message = "the client certificate has the cloud admin's name, but is not of the cloud admin's authority"
    elif admin != (audience == "admin"):
        users = "tenants, not for the cloud admin" if admin else "the cloud admin alone"
        reason, message = "wrong_service", f"this service is for {users}"
    elif not admin:
        reason, message = _tenant_refusal(certificate, tenant, tenant_ids=tenant_ids, now=now)
    return (
        Refusal(reason, message, certificate.name, _subject(tenant, reason)) if reason else Caller(certificate, tenant)
    )


def _subject(tenant: Tenant | None, reason: Reason) -> str:
    """The tenant that a refusal is about; "" for one that is about more than its certificate."""
    return tenant.name if tenant is not None and reason in CONDITION_REASONS else ""


def _tenant_refusal(
    certificate: Certificate, tenant: Tenant | None, *, tenant_ids: Sequence[str], now: datetime
) -> tuple[Reason | None, str]:
    """Why this certificate is refused for its tenant now, with the message for the caller; None where it is not."""
    if tenant is None:
        return "unknown", "the client certificate is bound to no tenant"
    pinned = [pin for pin in tenant.certificates if pin.sha256.lower() == certificate.sha256]
    if tenant.suspended:
        return "suspended", f"tenant {tenant.name} is suspended"
    if tenant.certificates and not pinned:
        return "not_pinned", f"tenant {tenant.name} has pinned other certificates than this one"
    if pinned and not any(pin.until is None or now < pin.until for pin in pinned):
        return "pin_ended", f"the time of this certificate at tenant {tenant.name} has ended"
    if any(given not in (tenant.name, tenant_namespace(tenant.name)) for given in tenant_ids):
        whose = f"which is of tenant {tenant.name}"
        return "tenant_id", f"the metadata tenant-id disagrees with the client certificate, {whose}"
    return None, ""


def cluster_refusal(
    tenant: Tenant, clusters: Sequence[str], *, certificate: str = "", holder_of: Callable[[str], str] = lambda _: ""
) -> Refusal | None:
    """Why a call that says it comes from the cluster `clusters` is not the tenant's; None where it may be.

    `holder_of` is the tenant that has a cluster, "" where none has. A call that names no cluster (a person's, by hand)
    is judged by its certificate.
    """
    if not clusters:
        return None
    refused = partial(Refusal, name=certificate, tenant=tenant.name, cluster=clusters[0])
    noted = tenant.link.cluster
    if len(set(clusters)) > 1 or not _CLUSTER.fullmatch(clusters[0]):
        message = f"the metadata {CLUSTER_KEY}: want one UID, that of namespace kube-system"
        return Refusal("cluster", message, certificate)
    if holder_of(clusters[0]) not in ("", tenant.name):
        message = (
            f"cluster {clusters[0]} (UID of namespace kube-system) belongs to another tenant than {tenant.name}. "
            "A cluster has one tenant: give its agent the bundle of that tenant. If the cluster is to be of tenant "
            f"{tenant.name} from now on, run this in the infra cluster, with the name of the other tenant: "
            f"berth tenant add {tenant.name} --move OTHER"
        )
        return refused("cluster_taken", message)
    if noted in ("", clusters[0]) or holder_of(noted) not in ("", tenant.name):
        return None
    message = (
        f"tenant {tenant.name} belongs to another cluster: this call comes from {clusters[0]}, the tenant's cluster is "
        f"{noted} (UIDs of namespace kube-system). One bundle is for one cluster: give this one a tenant "
        "of its own. If it has replaced the other one for good, run this in the infra cluster: "
        f"kubectl annotate tenant {tenant.name} {CLUSTER}-"
    )
    return refused("cluster", message)
