"""A tenant's bundle: the client certificate of its agent, whom to trust, and the same as a Secret to apply.

Pure: writing it is `staging`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.certs.bundles import fingerprint
from app.certs.issuing import CLOCK_SKEW, Issued, issue_leaf
from app.certs.secrets import secret_body
from app.certs.showing import stamp
from app.errors import UsageError
from app.kube.names import shorten
from app.tenancy.authority.ensuring import SigningAuthority
from app.tenancy.model import GATEWAY_NAME, tenant_certificate_name
from app.workloads.model import SYSTEM_NAMESPACE

AGENT_SECRET = "berth-agent"  # noqa: S105 - the name of an object
"""Name of the Secret in a tenant cluster."""
GATEWAY_FILE = "gateway-name"
"""Entry of the bundle: the name that the gateway's certificate answers to."""
MANIFEST_FILE = "secret.yaml"
_COMMON_NAME_LIMIT = 64  # ub-common-name of RFC 5280
FILES = frozenset({"ca.crt", "tls.crt", "tls.key", GATEWAY_FILE, MANIFEST_FILE})
"""What a bundle consists of."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a tenant gets. `sha256` pins the certificate, `until` is its end, `files` are its contents by name."""

    name: str
    sha256: str
    until: datetime
    files: dict[str, bytes] = field(repr=False)

    @property
    def pin(self) -> dict[str, str]:
        """The entry of the Tenant's `spec.identity.certificates`."""
        return {"sha256": self.sha256, "until": stamp(self.until)}


def issue_bundle(
    authority: SigningAuthority,
    tenant: str,
    *,
    now: datetime,
    days: int,
    gateway: str = GATEWAY_NAME,
    agent_namespace: str = SYSTEM_NAMESPACE,
) -> Bundle:
    """A new certificate for the tenant's agent, with a key of its own. Raises UsageError for an impossible `days`.

    `agent_namespace` is the one of the agent in the tenant's cluster, where its Secret has to be.
    """
    name = tenant_certificate_name(tenant)
    issued = _issue(authority, tenant, now=now, days=days)
    files = {
        "ca.crt": authority.bundle,
        "tls.crt": issued.certificate_pem,
        "tls.key": issued.key_pem,
        GATEWAY_FILE: gateway.encode(),
    }
    manifest = yaml.safe_dump(secret_body(AGENT_SECRET, files, namespace=agent_namespace), sort_keys=False)
    files[MANIFEST_FILE] = manifest.encode()
    return Bundle(name, fingerprint(issued.certificate), issued.certificate.not_valid_after_utc, files)


def _issue(authority: SigningAuthority, tenant: str, *, now: datetime, days: int) -> Issued:
    """The whole name is a DNS name of the certificate, for a common name has at most 64 characters."""
    if days < 1:
        raise UsageError(f"a certificate is valid for at least one day, got {days}")
    try:
        end = now + timedelta(days=days)
    except OverflowError as error:
        raise UsageError(f"{days} days from now is past the calendar's end") from error
    common_name = tenant_certificate_name(tenant)
    if len(common_name) > _COMMON_NAME_LIMIT:
        ending = len(common_name) - len(tenant)
        common_name = tenant_certificate_name(shorten(tenant, _COMMON_NAME_LIMIT - ending))
    return issue_leaf(
        authority.issued,
        subject=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]),
        alternatives=x509.SubjectAlternativeName([x509.DNSName(tenant_certificate_name(tenant))]),
        usage=ExtendedKeyUsageOID.CLIENT_AUTH,
        span=(now - CLOCK_SKEW, end),
        algorithm="ecdsa",
    )
