"""The certificate that Berth serves: by TLS where it can be reached from here, else as its Secret holds it.

Reads; what is wrong with it, and who trusts it, is `webhook_certificate`'s.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from cryptography import x509

from app.certs.certificate_set import BUNDLE
from app.certs.permissions import WEBHOOK_SECRET
from app.doctor.cluster import Cluster
from app.doctor.validity import read, trusts
from app.doctor.webhooks import Registered
from app.errors import UsageError
from app.kube.resources import SECRETS, SERVICES

_REACH_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Served:
    """A leaf, what is sent after it, and where it was seen. `trust_key` is where the Secret has its CA, or ""."""

    leaf: x509.Certificate
    chain: tuple[x509.Certificate, ...]
    source: str
    secret: str = ""
    trust_key: str = ""
    annotations: dict[str, str] = field(default_factory=dict)


async def by_tls(cluster: Cluster, one: Registered) -> Served | None:
    """As it is really served; None where it cannot be reached from here."""
    place = await _place(cluster, one)
    if place is None:
        return None
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # it is looked at, not relied on
    try:
        async with asyncio.timeout(_REACH_SECONDS):
            _, writer = await asyncio.open_connection(*place, ssl=context, server_hostname=place[0])
    except (OSError, TimeoutError):
        return None
    leaf = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return Served(x509.load_der_x509_certificate(leaf), (), f"served at {place[0]}:{place[1]}") if leaf else None


async def _place(cluster: Cluster, one: Registered) -> tuple[str, int] | None:
    """Host and port, where they can be reached from here: of a URL always, of a Service inside the cluster."""
    if one.url:
        return (one.host, urlsplit(one.url).port or 443) if one.host else None
    if one.service is None or not os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    namespace, name, port = one.service
    service = await cluster.get(SERVICES, name, namespace=namespace)
    address = ((service or {}).get("spec") or {}).get("clusterIP") or ""
    return (address, port) if address not in ("", "None") else None


async def in_secret(cluster: Cluster, one: Registered) -> Served | None:
    """As the Secret of the Service's Pods holds it; None where there is none. Raises UsageError for a broken one."""
    if one.service is None:
        return None
    namespace, service, _ = one.service
    webhooks, keepers = await cluster.running("webhook"), await cluster.running("certificates")
    mounted = [name for role in webhooks if role.namespace == namespace for name in role.secrets]
    written = [role.deployed.get("webhook_secret", "") for role in keepers if role.namespace == namespace]
    by_name = [f"{service}-tls", WEBHOOK_SECRET, service.removesuffix("-service")]
    for name in filter(None, dict.fromkeys([*mounted, *written, *by_name])):
        secret = await cluster.get(SECRETS, name, namespace=namespace)
        data = (secret or {}).get("data") or {}
        if secret is None or "tls.crt" not in data:
            continue
        place = f"Secret {namespace}/{name}"
        certificates, broken = read(data["tls.crt"], source=place)
        if broken or not certificates:
            raise UsageError(broken or f"{place} has no certificate in tls.crt")
        leaf, *chain = certificates
        authorities = {key: read(data.get(key) or "", source=place)[0] for key in (BUNDLE, "ca.crt")}
        key = next((key for key, roots in authorities.items() if trusts(roots, leaf, chain)), "")
        annotations = secret["metadata"].get("annotations") or {}
        return Served(leaf, tuple(chain), f"in {place}", name, key, annotations)
    return None
