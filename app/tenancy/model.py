"""Who a caller of the gateway is: the identities that Tenant objects bind to certificates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from app.wire import JSON

ADMIN_NAME = "cloud-admin.local"
"""The common name (or DNS name) of the cloud admin's certificate, as in Universe's deployment."""
GATEWAY_NAME = "api-gateway.local"
"""A name that the gateway's certificate answers to wherever it runs."""
CLUSTER_KEY = "berth-cluster"
"""Metadata of an agent's calls: the UID of namespace kube-system of its cluster, which no two clusters share."""
CLUSTER = "berth.dev/cluster"
"""Annotation on a Tenant, by the gateway: the cluster of its agent at first sight; calls from another are refused."""


@dataclass(frozen=True, slots=True)
class PinnedCertificate:
    """A certificate that is accepted: SHA-256 of its DER form in lower-case hex, and until when (None: no end)."""

    sha256: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Tenant:
    """A Tenant object: `names` are the common or DNS names of its certificates.

    Where `certificates` are pinned, a name alone is not enough. `hosts` are the names of its hosts, or None where
    Berth does not set the labels of the tenant's DPU nodes. `cluster` is the one it was first seen in ("": none yet);
    only the gateway reads it.
    """

    name: str
    namespace: str
    uid: str
    names: tuple[str, ...]
    certificates: tuple[PinnedCertificate, ...] = ()
    hosts: tuple[str, ...] | None = None
    suspended: bool = False
    cluster: str = ""

    def at(self, cluster: str) -> Tenant:
        """The same tenant, seen in this cluster."""
        return replace(self, cluster=cluster)


def tenant_certificate_name(tenant: str) -> str:
    """The common name of the certificates that `berth tenant add` issues."""
    return f"{tenant}.tenant.local"


def cluster_of(obj: JSON) -> str:
    """The cluster that is noted on a Tenant object; "" where none is."""
    annotations = obj["metadata"].get("annotations")
    found = annotations.get(CLUSTER) if isinstance(annotations, dict) else None
    return found if isinstance(found, str) else ""
