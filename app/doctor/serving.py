"""The certificate that Berth serves: by TLS where it can be reached from here, else as its Secret holds it.

Also reads certificates out of objects, and says until when, for which name and by whose signature each is valid. What
is wrong with them, and who trusts them, is for the check `certificate`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from cryptography import x509

from app.certs.certificate_set import BUNDLE, parse_bundle, renewal_due
from app.certs.issuing import names_of, signed_by
from app.certs.permissions import WEBHOOK_SECRET
from app.doctor.cluster import Cluster
from app.doctor.objects import spec
from app.doctor.webhooks import Registered
from app.errors import UsageError
from app.kube.resources import SECRETS, SERVICES
from app.text import stamp

_REACH_SECONDS = 3.0
_GRACE = 12
"""A renewal counts as overdue a twelfth of the lifetime after it was due."""
_LONGEST_PATH = 4


@dataclass(frozen=True, slots=True)
class Served:
    """A leaf, what is sent after it, and where it was seen. `trust_key` is where the Secret has its CA, or ""."""

    leaf: x509.Certificate
    chain: tuple[x509.Certificate, ...]
    source: str
    secret: str = ""
    trust_key: str = ""
    annotations: dict[str, str] = field(default_factory=dict)


async def by_tls(cluster: Cluster, webhook: Registered) -> Served | None:
    """As it is really served; None where it cannot be reached from here."""
    place = await _place(cluster, webhook)
    if place is None:
        return None
    leaf = await _shown(*place, name=place[0])
    return Served(leaf, (), f"served at {place[0]}:{place[1]}") if leaf else None


@dataclass(frozen=True, slots=True)
class Answer:
    """Who answers at an address: its certificate, and why it is not trusted, "" where it is."""

    leaf: x509.Certificate
    problem: str = ""

    @property
    def who(self) -> str:
        return f"answered by {_named(self.leaf.subject, 'no name')}, issued by {_named(self.leaf.issuer, 'no name')}"


async def answer_of(host: str, port: int, *, name: str, roots: bytes) -> Answer | None:
    """Who answers there to a client of gRPC that trusts these CAs (PEM) for this name; None where none answers."""
    if (leaf := await _shown(host, port, name=name)) is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as gRPC verifies
    context.load_verify_locations(cadata=roots.decode("ascii"))
    try:
        (await _connected(host, port, context, name)).abort()
    except ssl.SSLCertVerificationError as refusal:
        return Answer(leaf, refusal.verify_message)
    except (OSError, TimeoutError):
        return None
    return Answer(leaf)


async def _shown(host: str, port: int, *, name: str) -> x509.Certificate | None:
    """The certificate that is served; it is looked at, not relied on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        transport = await _connected(host, port, context, name)
    except (OSError, TimeoutError):
        return None
    leaf = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    transport.abort()
    return x509.load_der_x509_certificate(leaf) if leaf else None


async def _connected(host: str, port: int, context: ssl.SSLContext, name: str) -> asyncio.Transport:
    context.set_alpn_protocols(["h2", "http/1.1"])
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_REACH_SECONDS):
        return (await loop.create_connection(asyncio.Protocol, host, port, ssl=context, server_hostname=name))[0]


def _named(name: x509.Name, otherwise: str) -> str:
    return name.rfc4514_string() or otherwise


def subjects(certificates: Sequence[x509.Certificate]) -> str:
    """The CAs, as texts name them."""
    return " and ".join(
        dict.fromkeys(_named(certificate.subject, "a CA without a name") for certificate in certificates)
    )


async def _place(cluster: Cluster, webhook: Registered) -> tuple[str, int] | None:
    """Host and port, where they can be reached from here: of a URL always, of a Service inside the cluster."""
    if webhook.url:
        return (webhook.host, urlsplit(webhook.url).port or 443) if webhook.host else None
    if webhook.service is None or not os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    namespace, name, port = webhook.service
    service = await cluster.get(SERVICES, name, namespace=namespace)
    address = spec(service).get("clusterIP") or ""
    return (address, port) if address not in ("", "None") else None


async def in_secret(cluster: Cluster, webhook: Registered) -> Served | None:
    """As the Secret of the Service's Pods holds it; None where there is none. Raises UsageError for a broken one."""
    if webhook.service is None:
        return None
    namespace, service, _ = webhook.service
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


def read(text: object, *, source: str) -> tuple[list[x509.Certificate], str]:
    """The certificates in a value of an object, which is base64 of PEM, and why they cannot be read, or "".

    What is no base64 has none; API servers do not store it.
    """
    try:
        return parse_bundle(base64.b64decode(str(text), validate=True), source=source), ""
    except ValueError:
        return [], ""
    except UsageError as broken:
        return [], str(broken)


def trusts(roots: Sequence[x509.Certificate], leaf: x509.Certificate, chain: Sequence[x509.Certificate]) -> bool:
    """Whether signatures lead from the leaf to one of `roots`, over what is sent after it; dates are not looked at."""
    at = [leaf]
    for _ in range(_LONGEST_PATH):
        if any(signed_by(certificate, root) for certificate in at for root in roots):
            return True
        at = [link for link in chain if any(signed_by(certificate, link) for certificate in at)]
    return leaf in roots


def end(certificate: x509.Certificate) -> str:
    return stamp(certificate.not_valid_after_utc)


def has_ended(certificate: x509.Certificate, now: datetime) -> bool:
    return now >= certificate.not_valid_after_utc


def is_overdue(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it should have been renewed by now."""
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return now > renewal_due(certificate) + life / _GRACE


def expiry(certificate: x509.Certificate, now: datetime) -> str:
    """That it has expired, or should have been renewed; "" where neither is so."""
    if has_ended(certificate, now):
        return f"expired on {end(certificate)}"
    if is_overdue(certificate, now):
        return f"expires on {end(certificate)}; its renewal was due on {stamp(renewal_due(certificate))}"
    return ""


def misnamed(certificate: x509.Certificate, name: str) -> str:
    """That it is not for this name; "" where it is, or has a wildcard for it."""
    names = names_of(certificate)
    if name in names or f"*.{name.partition('.')[2]}" in names:
        return ""
    return f"is for {', '.join(names) or 'no name'}, not for {name}"
