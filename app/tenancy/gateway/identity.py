"""Who calls: from a client certificate and the Tenant objects to a tenant, the cloud admin, or a refusal.

Pure; the clock is passed in. TLS has verified the certificate's chain when this is asked. What a caller says of
itself (`tenant-id`) never widens what its certificate allows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from app.tenancy.model import Tenant
from app.workloads.model import tenant_namespace

Audience = Literal["tenant", "admin", "anyone"]
"""Whom a service is for; "anyone" is every holder of a certificate of ours (health, reflection)."""
Reason = Literal[
    "no_certificate",
    "not_valid",
    "unknown",
    "ambiguous",
    "suspended",
    "not_pinned",
    "pin_ended",
    "tenant_id",
    "wrong_service",
]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What counts of a client certificate: CN and DNS names in lower case, validity, SHA-256 of the DER form."""

    names: tuple[str, ...]
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
    """Why a call is not served. The message goes to the caller and names nothing that its certificate does not."""

    reason: Reason
    message: str
    name: str = ""


@lru_cache(maxsize=1024)
def read_certificate(pem: bytes) -> Certificate:
    """Raises ValueError for what is no certificate."""
    parsed = x509.load_pem_x509_certificate(pem)
    names = [str(entry.value) for entry in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        alternatives = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names += alternatives.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        pass
    return Certificate(
        names=tuple(dict.fromkeys(name.lower() for name in names)),
        sha256=hashlib.sha256(parsed.public_bytes(Encoding.DER)).hexdigest(),
        not_before=parsed.not_valid_before_utc,
        not_after=parsed.not_valid_after_utc,
    )


def identify(
    pem: bytes | None,
    *,
    audience: Audience,
    tenant_ids: Sequence[str],
    tenants_named: Callable[[str], Iterable[Tenant]],
    admin_names: Sequence[str],
    now: datetime,
) -> Caller | Refusal:
    """`tenants_named` finds the tenants that list a name; `tenant_ids` are the values of the metadata `tenant-id`."""
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
    admin = any(name in certificate.names for name in admin_names)
    tenants = {tenant.name: tenant for name in certificate.names for tenant in tenants_named(name)}
    if len(tenants) + admin > 1:
        return Refusal("ambiguous", "the client certificate is bound to more than one identity", certificate.name)
    if audience == "admin":
        return _as_admin(certificate, admin=admin)
    if admin:
        return Refusal("wrong_service", "this service is for tenants, not for the cloud admin", certificate.name)
    if not tenants:
        return Refusal("unknown", "the client certificate is bound to no tenant", certificate.name)
    (tenant,) = tenants.values()
    return _as_tenant(certificate, tenant, tenant_ids=tenant_ids, now=now)


def _as_admin(certificate: Certificate, *, admin: bool) -> Caller | Refusal:
    if admin:
        return Caller(certificate, None)
    return Refusal("wrong_service", "this service is for the cloud admin alone", certificate.name)


def _as_tenant(
    certificate: Certificate, tenant: Tenant, *, tenant_ids: Sequence[str], now: datetime
) -> Caller | Refusal:
    if tenant.suspended:
        return Refusal("suspended", f"tenant {tenant.name} is suspended", certificate.name)
    if tenant.certificates:
        pinned = [pin for pin in tenant.certificates if pin.sha256.lower() == certificate.sha256]
        if not pinned:
            message = f"tenant {tenant.name} has pinned other certificates than this one"
            return Refusal("not_pinned", message, certificate.name)
        if not any(pin.until is None or now < pin.until for pin in pinned):
            message = f"the time of this certificate at tenant {tenant.name} has ended"
            return Refusal("pin_ended", message, certificate.name)
    if any(given not in (tenant.name, tenant_namespace(tenant.name)) for given in tenant_ids):
        message = f"the metadata tenant-id disagrees with the client certificate, which is of tenant {tenant.name}"
        return Refusal("tenant_id", message, certificate.name)
    return Caller(certificate, tenant)
