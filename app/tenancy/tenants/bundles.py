"""A tenant's bundle: the client certificate of its agent, the CAs to trust, and the same as a Secret to apply. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import yaml

from app.certs.certificate_set import CertificateSet, fingerprint
from app.certs.issuing import COMMON_NAME_LIMIT, issue_client
from app.kube.names import shorten
from app.kube.secrets import secret_body
from app.tenancy.model import tenant_certificate_name
from app.text import stamp

AGENT_SECRET = "berth-agent"  # noqa: S105 - the name of an object
"""Name of the Secret in a tenant cluster."""
GATEWAY_FILE = "gateway-name"
"""Entry of the bundle: the name that the gateway's certificate answers to."""
MANIFEST_FILE = "secret.yaml"
FILES = frozenset({"ca.crt", "tls.crt", "tls.key", GATEWAY_FILE, MANIFEST_FILE})
"""What a bundle consists of."""


@dataclass(frozen=True, slots=True)
class Issuing:
    """Where a bundle goes and how its certificate is made; `authority_files`: certificate and key, else the Secret.

    `namespace` is the one of that Secret ("": where it is), `agent_namespace` that of the agent in the tenant's
    cluster, where its Secret has to be.
    """

    directory: Path
    days: int
    gateway: str
    authority_files: tuple[Path, Path] | None
    agent_namespace: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a tenant gets: `files` are its contents by name.

    `name` is the one in the certificate, `pin` the entry of the Tenant's `spec.identity.certificates`.
    """

    name: str
    pin: dict[str, str]
    files: dict[str, bytes] = field(repr=False)


def issue_bundle(authority: CertificateSet, tenant: str, issuing: Issuing, *, now: datetime) -> Bundle:
    """A new certificate for the tenant's agent, with a key of its own. Raises UsageError for an impossible `days`."""
    name, common_name = tenant_certificate_name(tenant), tenant
    if len(name) > COMMON_NAME_LIMIT:
        common_name = shorten(tenant, COMMON_NAME_LIMIT - len(name) + len(tenant))
    issued = issue_client(
        authority.signer(now),
        common_name=tenant_certificate_name(common_name),
        dns=(name,),  # the whole name
        now=now,
        days=issuing.days,
    )
    files = {
        "ca.crt": authority.bundle,
        "tls.crt": issued.certificate_pem,
        "tls.key": issued.key_pem,
        GATEWAY_FILE: issuing.gateway.encode(),
    }
    secret = secret_body(AGENT_SECRET, files, namespace=issuing.agent_namespace)
    files[MANIFEST_FILE] = yaml.safe_dump(secret, sort_keys=False).encode()
    until = stamp(issued.certificate.not_valid_after_utc)
    return Bundle(name, {"sha256": fingerprint(issued.certificate), "until": until}, files)
