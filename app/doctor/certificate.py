"""Check `certificate`: does each caBundle verify the certificate that Berth serves; how long; for which name.

The same of the certificates of gateway and agents, as the Secrets that they mount hold them.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.x509.oid import NameOID

from app.certs.certificate_set import parse_bundle, renewal_due
from app.certs.issuing import names_of
from app.certs.permissions import WEBHOOK_SECRET
from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.model import Check, Finding, error, guarded, info, ok, or_default, unchecked, warning
from app.doctor.serving import Served, by_tls, decode, in_secret, trusts
from app.doctor.webhooks import Registered
from app.errors import ApiError, UsageError
from app.kube.resources import SECRETS
from app.kube.secrets import MANAGED_BY, MANAGER
from app.registry import BY_NAME, ROLES
from app.text import stamp
from app.wire import encode_json

_GRACE = 12
"""A renewal counts as overdue a twelfth of the lifetime after it was due."""
_CERT_MANAGER = "cert-manager.io/certificate-name"
_REFUSED = "the API server refuses it, and every call to Berth fails"


@dataclass(frozen=True, slots=True)
class Keeping:
    """What manages the webhook's certificate. `foreign` is the Secret that Berth should manage and may not.

    Namespace and name, ("", "") where there is none: it lacks the label by which Berth knows its own.
    """

    keepers: Sequence[Installed] = ()
    foreign: tuple[str, str] = ("", "")

    @property
    def words(self) -> str:
        """The end of a message, about a Secret that Berth does not manage; "" if there is none."""
        namespace, name = self.foreign
        if not name:
            return ""
        hand_over = commands.set_label("secret", name, MANAGED_BY, MANAGER, namespace=namespace)
        return (
            f"; Secret {namespace}/{name} is not managed by Berth (no label {MANAGED_BY}={MANAGER}), so Berth does not "
            f"write it: delete it, or hand it over with `{hand_over}`"
        )

    async def reissue(self, cluster: Cluster, one: Registered, served: Served | None) -> str:
        """The command that has the certificate issued again, by the component that manages it."""
        if served is not None and (name := served.annotations.get(_CERT_MANAGER)) and one.service:
            return f"cmctl renew {name} --namespace {one.service[0]}"
        if one.installer_name:
            return " && ".join([commands.certs_install(one), *map(commands.restart, await cluster.running("webhook"))])
        if self.foreign[1]:
            return commands.kubectl("delete", "secret", self.foreign[1], namespace=self.foreign[0])
        if self.keepers:
            return commands.restart(self.keepers[0])
        if one.url:
            return f"berth certs make --help  # and give its files to the webhook at {one.url}"
        return await commands.recreate(cluster, one, "certificates.mode=self-managed")

    async def trust(self, cluster: Cluster, one: Registered, served: Served | None) -> str:
        """Trust the CA that the Secret has; where it has none, issue anew or say whose CA it takes."""
        if one.installer_name:
            return commands.certs_install(one)
        if served is not None and served.trust_key and one.service:
            namespace, service, _ = one.service
            template = f"go-template={{{{index .data {encode_json(served.trust_key).decode()} | base64decode}}}}"
            reading = commands.kubectl("get", "secret", served.secret, "--output", template, namespace=namespace)
            return f"{reading} | berth certs patch --ca /dev/stdin --service {namespace}/{service} {one.name}"
        return f"berth certs patch --ca ca.crt {one.name}" if one.url else await self.reissue(cluster, one, served)


async def _keeping(cluster: Cluster) -> Keeping:
    """As it is installed; what may not be read counts as not there."""
    keepers = await cluster.running("certificates")
    for keeper in keepers:
        if keeper.deployed.get("webhook_service") == "":
            continue  # it keeps the gateway's alone
        name = keeper.deployed.get("webhook_secret", WEBHOOK_SECRET)
        secret = await or_default(cluster.get(SECRETS, name, namespace=keeper.namespace), None)
        if secret is not None and objects.labels(secret).get(MANAGED_BY) != MANAGER:
            return Keeping(keepers, (keeper.namespace, name))
    return Keeping(keepers)


async def _of_webhooks(cluster: Cluster) -> AsyncIterator[Finding]:
    kept = await _keeping(cluster)
    findings: list[Finding] = []
    sound: list[str] = []
    judged: set[str] = set()
    for one in await cluster.registered():
        served = None
        try:
            served = await by_tls(cluster, one) or await in_secret(cluster, one)
        except ApiError as refusal:
            findings.append(unchecked(refusal))
        except UsageError as broken:
            fix, text = await kept.reissue(cluster, one, None), f"{broken}{kept.words}"
            findings.append(error(one.subject, text, "no TLS connection to Berth comes about", fix))
            continue
        new = await _trust(cluster, one, served, kept)
        if served is None and not findings and one.url:
            text = f"{one.url} does not answer from here: its certificate was not seen"
            new.append(info(one.subject, text, "see what `reachability` says for the API server"))
        elif served is None and not findings and one.service:
            text = f"no Secret in {one.service[0]} holds a certificate for Service {one.service[1]}"
            new.append(
                error(one.subject, text, "Pods of the webhook wait for it", await kept.reissue(cluster, one, None))
            )
        elif served is not None and served.source not in judged:
            judged.add(served.source)
            new += [finding async for finding in _leaf(cluster, one, served, kept)]
        if served is not None and not new:
            sound.append(f"{one.name}/{one.webhook.get('name')}")
            last = served
        findings += new
    if sound:
        text = f"trust the certificate {last.source}, valid until {stamp(last.leaf.not_valid_after_utc)}"
        findings.append(ok(", ".join(sound), text))
    for finding in findings:
        yield finding


async def _trust(cluster: Cluster, one: Registered, served: Served | None, kept: Keeping) -> list[Finding]:
    """The caBundle: there, readable, not over, and of a CA that signed what is served."""
    what = "what it is called for cannot be created" if one.fails_closed else "Pods start without an injection"
    follows, now = f"every call to Berth fails, and {what}", cluster.now()
    try:
        roots = parse_bundle(decode(one.bundle), source="caBundle")
    except UsageError as broken:
        text = f"its caBundle cannot be read: {broken}"
        return [error(one.subject, text, follows, await kept.trust(cluster, one, served))]
    valid = [root for root in roots if root.not_valid_before_utc <= now < root.not_valid_after_utc]
    if not one.bundle:
        text = "has no caBundle"
    elif not roots:
        text = "its caBundle holds no certificate"
    elif not valid:
        text = f"its caBundle expired on {stamp(max(root.not_valid_after_utc for root in roots))}"
    elif served is not None and not trusts(valid, served.leaf, served.chain):
        issuer = served.leaf.issuer.rfc4514_string() or "an issuer without a name"
        text = f"its caBundle does not verify the certificate {served.source} (issued by {issuer})"
    elif _overdue(last := max(valid, key=lambda root: root.not_valid_after_utc), now):
        text = f"the CA in its caBundle expires on {stamp(last.not_valid_after_utc)}, and has no successor"
        return [warning(one.subject, text, follows, await kept.reissue(cluster, one, served))]
    else:
        return []
    return [error(one.subject, text, follows, await kept.trust(cluster, one, served))]


async def _leaf(cluster: Cluster, one: Registered, served: Served, kept: Keeping) -> AsyncIterator[Finding]:
    """The certificate itself: its dates and its names."""
    leaf, now, fix = served.leaf, cluster.now(), await kept.reissue(cluster, one, served)
    begin, end = stamp(leaf.not_valid_before_utc), stamp(leaf.not_valid_after_utc)
    subject = f"the certificate {served.source}"
    words = kept.words if (one.service and one.service[0], served.secret) == kept.foreign else ""
    if now >= leaf.not_valid_after_utc:
        yield error(subject, f"expired on {end}{words}", _REFUSED, fix)
    elif now < leaf.not_valid_before_utc:
        follows = "a clock is wrong; until then every call to Berth fails"
        yield error(subject, f"is not valid before {begin}{words}", follows, fix)
    elif _overdue(leaf, now):
        text = f"expires on {end}; its renewal was due on {stamp(renewal_due(leaf))}{words}"
        yield warning(subject, text, "it is not renewed, and every call fails after it has expired", fix)
    wanted = f"{one.service[1]}.{one.service[0]}.svc" if one.service else urlsplit(one.url).hostname or ""
    names = names_of(leaf)
    if wanted not in names and f"*.{wanted.partition('.')[2]}" not in names:
        text = f"is for {', '.join(names) or 'no name'}, not for {wanted}{words}"
        yield error(subject, text, _REFUSED, fix)


def _overdue(certificate: x509.Certificate, now: datetime) -> bool:
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return now > renewal_due(certificate) + life / _GRACE


async def _of_roles(cluster: Cluster) -> AsyncIterator[Finding]:
    """Certificates of roles that have expired, or that were not renewed before the last quarter of their lifetime.

    The check of the Pods reports a missing Secret.
    """
    for role in (known for known in ROLES if known.when_expired):
        for one in await cluster.running(role.name):
            for name in one.secrets:
                async for finding in guarded(_of_secret(cluster, one, name)):
                    yield finding


async def _of_secret(cluster: Cluster, one: Installed, name: str) -> AsyncIterator[Finding]:
    subject, follows = f"Secret {one.namespace}/{name}", BY_NAME[one.role].when_expired
    secret = await cluster.get(SECRETS, name, namespace=one.namespace)
    try:
        certificates = parse_bundle(decode(((secret or {}).get("data") or {}).get("tls.crt") or ""), source=subject)
    except UsageError as broken:
        yield error(subject, f"its certificate cannot be read: {broken}", follows, await _renew(cluster, one, None))
        return
    if not certificates:
        return
    leaf, now = certificates[0], cluster.now()
    end, life = leaf.not_valid_after_utc, leaf.not_valid_after_utc - leaf.not_valid_before_utc
    fix = await _renew(cluster, one, leaf)
    if now >= end:
        yield error(subject, f"its certificate expired on {stamp(end)}", follows, fix)
    elif now > end - life / 4:
        text = f"its certificate expires on {stamp(end)}; its renewal was due on {stamp(renewal_due(leaf))}"
        yield warning(subject, text, f"then {follows}", fix)


async def _renew(cluster: Cluster, one: Installed, leaf: x509.Certificate | None) -> str:
    if one.role == "gateway":
        keepers = await cluster.running("certificates")
        return commands.restart(keepers[0]) if keepers else f"berth tenant authority --namespace {one.namespace}"
    named = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME) if leaf is not None else []
    tenant = one.deployed.get("tenant") or (str(named[0].value).partition(".")[0] if named else "TENANT")
    written = shlex.quote(f"tenant-{tenant}/secret.yaml")
    return f"berth tenant rotate {shlex.quote(tenant)} --kubeconfig INFRA && kubectl apply -f {written}"


CHECK = Check("certificate", (_of_webhooks, _of_roles))
