"""Checks the certificate of the webhook: does each caBundle verify it; how long; for which name; what manages it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial

from cryptography import x509

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import CALLS, Finding, depends_on, error, info, ok, or_default, unchecked, warning
from app.doctor.serving import Served, by_tls, end, expiry, has_ended, in_secret, is_overdue, misnamed, read, trusts
from app.doctor.webhooks import Registered
from app.errors import ApiError, UsageError
from app.kube.resources import SECRETS
from app.kube.secrets import MANAGED_BY, MANAGER
from app.text import stamp

_CERT_MANAGER = "cert-manager.io/certificate-name"


@dataclass(frozen=True, slots=True)
class Keeping:
    """What manages the webhook's certificate: `restart` is the command that has Berth look at it again, if Berth does.

    `foreign` is the Secret that Berth should manage and may not: namespace and name, ("", "") where there is none. It
    lacks the label by which Berth knows its own.
    """

    restart: str = ""
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
        if self.restart:
            return self.restart
        if one.url:
            return f"berth certs make --help  # and give its files to the webhook at {one.url}"
        return await commands.recreate(cluster, one, "certificates.mode=self-managed")

    async def trust(self, cluster: Cluster, one: Registered, served: Served | None) -> str:
        """Trust the CA that the Secret has; where it has none, issue it again, or say which CA it needs."""
        if one.installer_name:
            return commands.certs_install(one)
        if served is not None and served.trust_key and one.service:
            namespace, service, _ = one.service
            template = f'go-template={{{{index .data "{served.trust_key}" | base64decode}}}}'
            reading = commands.kubectl("get", "secret", served.secret, "--output", template, namespace=namespace)
            return f"{reading} | berth certs patch --ca /dev/stdin --service {namespace}/{service} {one.name}"
        return f"berth certs patch --ca ca.crt {one.name}" if one.url else await self.reissue(cluster, one, served)


async def keeping_in(cluster: Cluster) -> Keeping:
    """As it is installed; what may not be read counts as not there."""
    keepers = await cluster.running("certificates")
    restart = commands.restart(keepers[0]) if keepers else ""
    for keeper in keepers:
        if keeper.deployed.get("webhook_service") == "":
            continue  # it keeps the gateway's alone
        name = str(keeper.setting("webhook_secret"))
        secret = await or_default(cluster.get(SECRETS, name, namespace=keeper.namespace), None)
        if secret is not None and objects.labels(secret).get(MANAGED_BY) != MANAGER:
            return Keeping(restart, (keeper.namespace, name))
    return Keeping(restart)


async def of_webhooks(cluster: Cluster) -> AsyncIterator[Finding]:
    kept = await keeping_in(cluster)
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
            findings.append(error("BERTH0603", one, text, command=fix))
            continue
        new = await _trust(cluster, one, served, kept)
        if served is None and not findings and one.url:
            new.append(info("BERTH0604", one))
        elif served is None and not findings and one.service:
            fix, because = await kept.reissue(cluster, one, None), depends_on("certificates")
            namespace, service, _ = one.service
            new.append(error("BERTH0605", one, namespace=namespace, service=service, command=fix, because=because))
        elif served is not None and served.source not in judged:
            judged.add(served.source)
            new += [finding async for finding in _leaf(cluster, one, served, kept)]
        if served is not None and not new:
            sound.append(f"{one.name}/{one.webhook.get('name')}")
            last = served
        findings += new
    if sound:
        text = f"trust the certificate {last.source}, valid until {end(last.leaf)}"
        findings.append(ok(", ".join(sound), text))
    for finding in findings:
        yield finding


async def _trust(cluster: Cluster, one: Registered, served: Served | None, kept: Keeping) -> list[Finding]:
    """The caBundle: there, readable, not over, and of a CA that signed what is served."""
    case, now = "closed" if one.fails_closed else "", cluster.now()
    roots, broken = read(one.bundle, source="caBundle")
    valid = [root for root in roots if root.not_valid_before_utc <= now < root.not_valid_after_utc]
    if broken:
        text = f"its caBundle cannot be read: {broken}"
    elif not one.bundle:
        text = "has no caBundle"
    elif not roots:
        text = "its caBundle holds no certificate"
    elif not valid:
        text = f"its caBundle expired on {end(_last(roots))}"
    elif served is not None and not trusts(valid, served.leaf, served.chain):
        issuer = served.leaf.issuer.rfc4514_string() or "an issuer without a name"
        text = f"its caBundle does not verify the certificate {served.source} (issued by {issuer})"
    elif is_overdue(last := _last(valid), now):
        fix = await kept.reissue(cluster, one, served)
        return [warning("BERTH0602", one, case=case, end=end(last), command=fix)]
    else:
        return []
    fix = await kept.trust(cluster, one, served)
    return [error("BERTH0601", one, text, case=case, command=fix, explains=(CALLS,))]


async def _leaf(cluster: Cluster, one: Registered, served: Served, kept: Keeping) -> AsyncIterator[Finding]:
    """The certificate itself: its dates and its names."""
    leaf, now, fix = served.leaf, cluster.now(), await kept.reissue(cluster, one, served)
    subject, wrong = f"the certificate {served.source}", partial(error, command=fix, explains=(CALLS,))
    words = kept.words if (one.service and one.service[0], served.secret) == kept.foreign else ""
    if has_ended(leaf, now):
        yield wrong("BERTH0606", subject, f"{expiry(leaf, now)}{words}")
    elif now < leaf.not_valid_before_utc:
        yield wrong("BERTH0607", subject, f"is not valid before {stamp(leaf.not_valid_before_utc)}{words}")
    elif text := expiry(leaf, now):
        yield warning("BERTH0608", subject, text + words, command=fix)
    if text := misnamed(leaf, f"{one.service[1]}.{one.service[0]}.svc" if one.service else one.host):
        yield wrong("BERTH0609", subject, text + words)


def _last(certificates: Sequence[x509.Certificate]) -> x509.Certificate:
    return max(certificates, key=lambda one: one.not_valid_after_utc)
