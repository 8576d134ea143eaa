"""Check `certificate`: that of the webhook; those of other roles, as the Secrets that they mount hold them.

Of the webhook: does each caBundle verify it; how long; for which name; what manages it.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from cryptography import x509

from app.doctor import commands, objects
from app.doctor.catalog import listed, plain
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.model import (
    CALLS,
    Check,
    Finding,
    Severity,
    depends_on,
    error,
    guarded,
    info,
    noted,
    ok,
    or_default,
    topic,
    unchecked,
    warning,
)
from app.doctor.serving import Served, by_tls, end, expiry, has_ended, in_secret, is_overdue, misnamed, read, trusts
from app.doctor.webhooks import Registered
from app.errors import ApiError, UsageError
from app.kube.resources import SECRETS
from app.kube.secrets import CERT_MANAGER, FILES, MANAGED_BY, MANAGER, stored_files
from app.registry import ROLES
from app.serving.tls import Pair, read_certificates
from app.text import stamp
from app.wire import JSON
from app.wiring import resolve

_FILES = topic("files", "webhook")


async def _of_roles(cluster: Cluster) -> AsyncIterator[Finding]:
    """Secrets of roles that are missing or cannot be used, or whose certificate was not renewed in time."""
    for role in (role for role in ROLES if role.renew):
        for deployment in await cluster.running(role.name):
            if deployment.tls_secret:
                async for finding in guarded(_of_secret(cluster, deployment)):
                    yield finding


async def _of_secret(cluster: Cluster, deployment: Installed) -> AsyncIterator[Finding]:
    it, role = objects.named(SECRETS, deployment.tls_secret, deployment.namespace), deployment.descriptor
    renew: Callable[[Cluster, Installed], Awaitable[str]] = resolve(role.renew)
    topics, fix = (topic("files", deployment.role),), await renew(cluster, deployment)
    secret = await cluster.get(SECRETS, it.name, namespace=it.namespace)
    if secret is None:
        waits = f"no new Pod of the {deployment.role} starts; then {role.when_down}"
        yield error("BERTH0610", it, consequence=waits, command=fix, explains=topics)
        return
    if name := (secret["metadata"].get("annotations") or {}).get(CERT_MANAGER):
        fix = _renew_there(name, it.namespace)  # what anyone else writes there, cert-manager replaces
    reads_ca = any(argument.text.endswith(f"/{FILES[2]}") for argument in role.chart.arguments)
    for severity, code, text in faults(secret, cluster.now(), FILES if reads_ca else FILES[:2]):
        follows = f"then {role.when_expired}" if severity is Severity.warning else role.when_expired
        yield noted(severity, code, it, text, follows, fix, explains=topics)


def _renew_there(certificate: str, namespace: str) -> str:
    """Has cert-manager issue a certificate again."""
    return shlex.join(["cmctl", "renew", certificate, "--namespace", namespace])


async def renew_page(cluster: Cluster, deployment: Installed) -> str:
    """The command that writes the Secret of the page again, or shows one that the role `certificates` may not write."""
    name, namespace = deployment.tls_secret, deployment.namespace
    secret = await or_default(cluster.get(SECRETS, name, namespace=namespace), None)
    for keeper in await cluster.running("certificates"):
        if keeper.setting("ui_service") and keeper.setting("ui_secret") == name:
            if secret is not None and objects.labels(secret).get(MANAGED_BY) != MANAGER:
                return commands.kubectl("describe", "secret", name, namespace=namespace)
            return commands.restart(cluster, keeper)
    kind = str((secret or {}).get("type") or "kubernetes.io/tls")
    return commands.write_secret(name, namespace=namespace, files=FILES[:2], kind=kind)


def faults(secret: JSON, now: datetime, wanted: Sequence[str] = FILES) -> Iterator[tuple[Severity, str, str]]:
    """What is wrong with the `wanted` files: severity, code and message, which quotes nothing of a key.

    They are tls.crt and tls.key, and ca.crt for a role that reads it.
    """
    files = stored_files(secret)
    if missing := [name for name in wanted if not files.get(name)]:
        yield Severity.error, "BERTH0610", f"has no {', '.join(missing)}"
        return
    certificate, key, *authorities = (files[name] for name in wanted)
    try:
        leaf = Pair.parse(certificate, key, cert_file=FILES[0], key_file=FILES[1]).leaf
        roots = [root for authority in authorities for root in read_certificates(authority, source=FILES[2])]
    except ValueError as error:
        yield Severity.error, "BERTH0603", f"its files cannot be used: {error}"
        return
    if roots and all(has_ended(root, now) for root in roots):
        yield Severity.error, "BERTH0606", f"its ca.crt expired on {end(roots[-1])}"
    if has_ended(leaf, now):
        yield Severity.error, "BERTH0606", f"its certificate {expiry(leaf, now)}"
    elif text := expiry(leaf, now):
        yield Severity.warning, "BERTH0608", f"its certificate {text}"


@dataclass(frozen=True, slots=True)
class Keeping:
    """What manages the webhook's certificate: `restart` is the command that has Berth look at it again, if Berth does.

    `foreign` is the Secret that Berth should manage and may not: namespace and name, ("", "") where there is none. It
    lacks the label by which Berth knows its own. `content` says what it is.
    """

    restart: str = ""
    foreign: tuple[str, str] = ("", "")
    content: str = ""

    @property
    def words(self) -> str:
        """The end of a message, about a Secret that Berth does not manage; "" if there is none."""
        namespace, name = self.foreign
        if not name:
            return ""
        hand_over = commands.set_label("secret", name, MANAGED_BY, MANAGER, namespace=namespace)
        return (
            f"; Secret {namespace}/{name} is not managed by Berth (no label {MANAGED_BY}={MANAGER}), so Berth does not "
            f"write it: {self.content}. If nothing else needs what it has, `{hand_over}` lets Berth replace that"
        )

    async def reissue(self, cluster: Cluster, webhook: Registered, served: Served | None) -> str:
        """The command that has the certificate issued again, by the component that manages it."""
        if served is not None and (name := served.annotations.get(CERT_MANAGER)) and webhook.service:
            return _renew_there(name, webhook.service[0])
        if webhook.installer_name:
            restarts = [commands.restart(cluster, deployment) for deployment in await cluster.running("webhook")]
            return " && ".join([commands.certs_install(webhook), *restarts])
        if self.foreign[1]:
            return commands.kubectl("describe", "secret", self.foreign[1], namespace=self.foreign[0])
        if self.restart:
            return self.restart
        if webhook.url:
            return f"berth certs make --help  # and give its files to the webhook at {webhook.url}"
        return await commands.recreate(cluster, webhook, "certificates.mode=self-managed")

    async def trust(self, cluster: Cluster, webhook: Registered, served: Served | None) -> str:
        """Trust the CA that the Secret has; where it has none, issue it again, or say which CA it needs."""
        if webhook.installer_name:
            return commands.certs_install(webhook)
        if served is not None and served.trust_key and webhook.service:
            namespace, service, _ = webhook.service
            template = f'go-template={{{{index .data "{served.trust_key}" | base64decode}}}}'
            reading = commands.kubectl("get", "secret", served.secret, "--output", template, namespace=namespace)
            return f"{reading} | berth certs patch --ca /dev/stdin --service {namespace}/{service} {webhook.name}"
        return (
            f"berth certs patch --ca ca.crt {webhook.name}"
            if webhook.url
            else await self.reissue(cluster, webhook, served)
        )


async def _keeping_in(cluster: Cluster) -> Keeping:
    """As it is installed; what may not be read counts as not there."""
    keepers = await cluster.running("certificates")
    restart = commands.restart(cluster, keepers[0]) if keepers else ""
    for keeper in keepers:
        if keeper.deployed.get("webhook_service") == "":
            continue  # it keeps the gateway's alone
        name = str(keeper.setting("webhook_secret"))
        secret = await or_default(cluster.get(SECRETS, name, namespace=keeper.namespace), None)
        if secret is not None and objects.labels(secret).get(MANAGED_BY) != MANAGER:
            return Keeping(restart, (keeper.namespace, name), _content(secret))
    return Keeping(restart)


def _content(secret: JSON) -> str:
    """What a Secret is and who made it, without what it holds."""
    metadata = secret["metadata"]
    managers = dict.fromkeys(entry.get("manager") or "?" for entry in metadata.get("managedFields") or ())
    owners = [f"{owner.get('kind')} {owner.get('name')}" for owner in metadata.get("ownerReferences") or ()]
    parts = [f"it has {listed(sorted(secret.get('data') or {})) or 'nothing'}"]
    parts += [f"was written by {listed([*managers])}"] if managers else []
    parts += [f"belongs to {listed(owners)}"] if owners else []
    return plain(", ".join(parts))


async def _of_webhooks(cluster: Cluster) -> AsyncIterator[Finding]:
    kept = await _keeping_in(cluster)
    findings: list[Finding] = []
    sound: dict[str, list[str]] = {}  # what is served, in words, and the webhooks that trust it
    judged: dict[str, list[Finding]] = {}
    for webhook in await cluster.registered():
        served = None
        try:
            served = await by_tls(cluster, webhook) or await in_secret(cluster, webhook)
        except ApiError as refusal:
            findings.append(unchecked(refusal))
        except UsageError as broken:
            fix, text = await kept.reissue(cluster, webhook, None), f"{broken}{kept.words}"
            findings.append(error("BERTH0603", webhook, text, command=fix, explains=(_FILES,)))
            continue
        new = await _trust(cluster, webhook, served, kept)
        if served is None and not findings and webhook.url:
            new.append(info("BERTH0604", webhook))
        elif served is None and not findings and webhook.service:
            fix, because = await kept.reissue(cluster, webhook, None), depends_on("certificates")
            namespace, service, _ = webhook.service
            lacks = partial(error, "BERTH0605", webhook, command=fix, explains=(_FILES,), because=because)
            new.append(lacks(namespace=namespace, service=service))
        elif served is not None and served.source not in judged:
            judged[served.source] = [finding async for finding in _leaf(cluster, webhook, served, kept)]
            new += judged[served.source]
        if served is not None and not new and not judged[served.source]:
            words = f"{served.source}, valid until {end(served.leaf)}"
            sound.setdefault(words, []).append(f"{webhook.name}/{webhook.webhook.get('name')}")
        findings += new
    findings += [ok(", ".join(names), f"trust the certificate {words}") for words, names in sound.items()]
    for finding in findings:
        yield finding


async def _trust(cluster: Cluster, webhook: Registered, served: Served | None, kept: Keeping) -> list[Finding]:
    """The caBundle: there, readable, not over, and of a CA that signed what is served."""
    case, now = "closed" if webhook.fails_closed else "", cluster.now()
    roots, broken = read(webhook.bundle, source="caBundle")
    valid = [root for root in roots if root.not_valid_before_utc <= now < root.not_valid_after_utc]
    if broken:
        text = f"its caBundle cannot be read: {broken}"
    elif not webhook.bundle:
        text = "has no caBundle"
    elif not roots:
        text = "its caBundle holds no certificate"
    elif not valid:
        text = f"its caBundle expired on {end(_last(roots))}"
    elif served is not None and not trusts(valid, served.leaf, served.chain):
        issuer = served.leaf.issuer.rfc4514_string() or "an issuer without a name"
        text = f"its caBundle does not verify the certificate {served.source} (issued by {issuer})"
    elif is_overdue(last := _last(valid), now):
        fix = await kept.reissue(cluster, webhook, served)
        return [warning("BERTH0602", webhook, case=case, end=end(last), command=fix)]
    else:
        return []
    fix = await kept.trust(cluster, webhook, served)
    return [error("BERTH0601", webhook, text, case=case, command=fix, explains=(CALLS,))]


async def _leaf(cluster: Cluster, webhook: Registered, served: Served, kept: Keeping) -> AsyncIterator[Finding]:
    """The certificate itself: its dates and its names."""
    leaf, now, fix = served.leaf, cluster.now(), await kept.reissue(cluster, webhook, served)
    subject, wrong = f"the certificate {served.source}", partial(error, command=fix, explains=(CALLS, _FILES))
    words = kept.words if (webhook.service and webhook.service[0], served.secret) == kept.foreign else ""
    if has_ended(leaf, now):
        yield wrong("BERTH0606", subject, f"{expiry(leaf, now)}{words}")
    elif now < leaf.not_valid_before_utc:
        yield wrong("BERTH0607", subject, f"is not valid before {stamp(leaf.not_valid_before_utc)}{words}")
    elif text := expiry(leaf, now):
        yield warning("BERTH0608", subject, text + words, command=fix)
    if text := misnamed(leaf, f"{webhook.service[1]}.{webhook.service[0]}.svc" if webhook.service else webhook.host):
        yield wrong("BERTH0609", subject, text + words)


def _last(certificates: Sequence[x509.Certificate]) -> x509.Certificate:
    return max(certificates, key=lambda certificate: certificate.not_valid_after_utc)


CHECK = Check("certificate", (_of_webhooks, _of_roles))
