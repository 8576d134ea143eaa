"""Check `certificate`: does each caBundle verify the certificate that Berth serves; how long; for which name."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from cryptography import x509

from app.certs.bundles import parse_bundle
from app.certs.certificate_set import renewal_due
from app.certs.issuing import names_of
from app.doctor.cert_fix import Keeping, keeping
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity
from app.doctor.rolecertificates import role_certificates
from app.doctor.running import unchecked
from app.doctor.serving import Served, by_tls, in_secret, trusts
from app.doctor.webhooks import Registered, registered
from app.errors import ApiError, UsageError
from app.text import stamp

_CHECK = "certificate"
_GRACE = 12
"""A renewal counts as overdue a twelfth of the lifetime after it was due."""


@dataclass(frozen=True, slots=True)
class CertificateCheck:
    name: str = _CHECK

    async def run(self, cluster: Cluster) -> list[Finding]:
        kept = await keeping(cluster)
        findings: list[Finding] = []
        sound: list[str] = []
        judged: set[str] = set()
        for one in await registered(cluster):
            try:
                served = await by_tls(cluster, one) or await in_secret(cluster, one, kept.roles)
            except ApiError as error:
                findings.append(unchecked(_CHECK, error))
                served = None
            except UsageError as error:
                fix = kept.reissue(cluster, one, None)
                text = f"{error}{kept.words}"
                findings.append(_error(one.subject, text, "no TLS connection to Berth comes about", fix))
                continue
            new = list(_trust(cluster, one, served, kept))
            if served is not None and served.source not in judged:
                judged.add(served.source)
                new += _leaf(cluster, one, served, kept)
            if served is None and not any(finding.check == _CHECK for finding in findings):
                new += _unseen(cluster, one, kept)
            if served is not None and not new:
                sound.append(f"{one.name}/{one.webhook.get('name')}")
                last = served
            findings += new
        if sound:
            text = f"trust the certificate {last.source}, valid until {stamp(last.leaf.not_valid_after_utc)}"
            findings.append(Finding(_CHECK, Severity.ok, ", ".join(sound), text))
        findings += await role_certificates(cluster, kept.roles)
        return list(dict.fromkeys(findings))


def _trust(cluster: Cluster, one: Registered, served: Served | None, kept: Keeping) -> Iterator[Finding]:
    """The caBundle: there, readable, not over, and of a CA that signed what is served."""
    hurts = (
        "every call to Berth fails, and what it is called for cannot be created"
        if one.fails_closed
        else "every call to Berth fails, and Pods start without an injection"
    )
    fix = kept.trust(cluster, one, served)
    if not one.bundle:
        yield _error(one.subject, "has no caBundle", hurts, fix)
        return
    try:
        roots = parse_bundle(base64.b64decode(one.bundle, validate=True), source="caBundle")
    except (binascii.Error, ValueError, UsageError) as error:
        yield _error(one.subject, f"its caBundle cannot be read: {error}", hurts, fix)
        return
    now = cluster.now()
    valid = [root for root in roots if root.not_valid_before_utc <= now < root.not_valid_after_utc]
    if not valid:
        end = max((root.not_valid_after_utc for root in roots), default=None)
        text = "its caBundle holds no certificate" if end is None else f"its caBundle expired on {stamp(end)}"
        yield _error(one.subject, text, hurts, fix)
    elif served is not None and not trusts(valid, served.leaf, served.chain):
        text = f"its caBundle does not verify the certificate {served.source} (issued by {_issuer(served.leaf)})"
        yield _error(one.subject, text, hurts, fix)
    elif _overdue(last := max(valid, key=lambda root: root.not_valid_after_utc), now):
        text = f"the CA in its caBundle expires on {stamp(last.not_valid_after_utc)}, and has no successor"
        yield Finding(_CHECK, Severity.warning, one.subject, text, hurts, kept.reissue(cluster, one, served))


def _leaf(cluster: Cluster, one: Registered, served: Served, kept: Keeping) -> Iterator[Finding]:
    """The certificate itself: its dates and its names."""
    leaf, now, fix = served.leaf, cluster.now(), kept.reissue(cluster, one, served)
    subject = f"the certificate {served.source}"
    words = kept.words if (one.service and one.service[0], served.secret) == kept.foreign else ""
    if now >= leaf.not_valid_after_utc:
        text = f"expired on {stamp(leaf.not_valid_after_utc)}"
        yield _error(subject, text + words, "the API server refuses it, and every call to Berth fails", fix)
    elif now < leaf.not_valid_before_utc:
        text = f"is not valid before {stamp(leaf.not_valid_before_utc)}"
        yield _error(subject, text + words, "a clock is wrong; until then every call to Berth fails", fix)
    elif _overdue(leaf, now):
        text = f"expires on {stamp(leaf.not_valid_after_utc)}; its renewal was due on {stamp(renewal_due(leaf))}"
        consequence = "it is not renewed, and every call fails after it has expired"
        yield Finding(_CHECK, Severity.warning, subject, text + words, consequence, fix)
    wanted = f"{one.service[1]}.{one.service[0]}.svc" if one.service else urlsplit(one.url).hostname or ""
    names = names_of(leaf)
    if not _answers(names, wanted):
        text = f"is for {', '.join(names) or 'no name'}, not for {wanted}"
        yield _error(subject, text + words, "the API server refuses it, and every call to Berth fails", fix)


def _unseen(cluster: Cluster, one: Registered, kept: Keeping) -> list[Finding]:
    if one.url:
        text = f"{one.url} does not answer from here: its certificate was not seen"
        return [Finding(_CHECK, Severity.info, one.subject, text, "see what `reachability` says for the API server")]
    if one.service is None:
        return []
    namespace, service, _ = one.service
    text = f"no Secret in {namespace} holds a certificate for Service {service}"
    return [_error(one.subject, text, "Pods of the webhook wait for it", kept.reissue(cluster, one, None))]


def _overdue(certificate: x509.Certificate, now: datetime) -> bool:
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return now > renewal_due(certificate) + life / _GRACE


def _answers(names: Sequence[str], wanted: str) -> bool:
    return wanted in names or any(
        name.startswith("*.") and wanted.partition(".")[2] == name.removeprefix("*.") for name in names
    )


def _issuer(leaf: x509.Certificate) -> str:
    return leaf.issuer.rfc4514_string() or "an issuer without a name"


def _error(subject: str, message: str, consequence: str, command: str) -> Finding:
    return Finding(_CHECK, Severity.error, subject, message, consequence, command)
