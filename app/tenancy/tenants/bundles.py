"""A tenant's bundle: the client certificate of its agent, whom to trust, and the same as a Secret to apply.

Pure: writing it is `staging`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import yaml

from app.certs.bundles import fingerprint
from app.certs.certificate_set import CertificateSet
from app.certs.issuing import COMMON_NAME_LIMIT, issue_client
from app.certs.secrets import secret_body
from app.kube.names import shorten
from app.tenancy.model import GATEWAY_NAME, tenant_certificate_name
from app.text import stamp
from app.workloads.model import SYSTEM_NAMESPACE

AGENT_SECRET = "berth-agent"  # noqa: S105 - the name of an object
"""Name of the Secret in a tenant cluster."""
GATEWAY_FILE = "gateway-name"
"""Entry of the bundle: the name that the gateway's certificate answers to."""
MANIFEST_FILE = "secret.yaml"
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
    authority: CertificateSet,
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
    name, common_name = tenant_certificate_name(tenant), tenant
    if len(name) > COMMON_NAME_LIMIT:
        common_name = shorten(tenant, COMMON_NAME_LIMIT - len(name) + len(tenant))
    issued = issue_client(
        authority.signer(now),
        common_name=tenant_certificate_name(common_name),
        dns=(name,),  # the whole name
        now=now,
        days=days,
    )
    files = {
        "ca.crt": authority.bundle,
        "tls.crt": issued.certificate_pem,
        "tls.key": issued.key_pem,
        GATEWAY_FILE: gateway.encode(),
    }
    manifest = yaml.safe_dump(secret_body(AGENT_SECRET, files, namespace=agent_namespace), sort_keys=False)
    files[MANIFEST_FILE] = manifest.encode()
    return Bundle(name, fingerprint(issued.certificate), issued.certificate.not_valid_after_utc, files)
