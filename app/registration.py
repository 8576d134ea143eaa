"""How an API server is made to call Berth: a Service and two webhook configurations, and the init container's install.

Names and fields are those of Network Resources Injector's installer, so that applying them over its objects updates
these in place; what it lacks (a timeout, the check of attachments) is added.

Every replica installs from inside the cluster. The Secret is the lock: the API server lets one replica create or
replace it, and all use what it holds. Everything after it is repeated by every replica and comes out the same, so a
replica that dies half-way leaves nothing that the next one does not repair. Objects are updated in place, never
deleted: there is no moment without a webhook.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from app.cel.literals import listed
from app.certs import issuing, patching, rotation
from app.certs.certificate_set import DAYS, SERVING, CertificateSet
from app.errors import Terminal
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, SERVICES, VALIDATING_WEBHOOKS, Resource
from app.kube.retry import Sleep, get_or_none, until_no_conflict
from app.kube.secrets import CERT_MANAGER, MANAGED_BY, MANAGER, StoredFiles, read_secret, write_secret
from app.registry import condition_terms, reviews_of, webhooks_of
from app.text import cut
from app.wire import JSON
from app.wiring import NAMESPACE_NAME, Condition, Requirement, ReviewKind

FailurePolicy = Literal["Ignore", "Fail"]
PORT = 443
"""Of the Service."""
TARGET_PORT = 8443
TIMEOUT_SECONDS = 10
_DOMAIN = "k8s.cni.cncf.io"
_ARGUMENTS = "webhook.args."


_CERTIFICATES = (".crt", ".key", ".pem")
"""The ends of names that certificates and keys have in Secrets."""


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms an API server calls: not for which namespaces, how long it waits, what it does without us."""

    exempt: tuple[str, ...] = ("kube-system",)
    failure_policy: FailurePolicy = "Fail"
    timeout_seconds: int = TIMEOUT_SECONDS


@dataclass(frozen=True, slots=True)
class Installation:
    """The arguments of `berth certs install`. `name` is the prefix of all objects, and the name of the Secret.

    Without `timeout_seconds` a registration that is there keeps its own, and a new one gets `TIMEOUT_SECONDS`.
    """

    namespace: str = "kube-system"
    name: str = "network-resources-injector"
    failure_policy: FailurePolicy = "Fail"
    timeout_seconds: int | None = None
    dns: tuple[str, ...] = ()

    @property
    def service(self) -> str:
        return f"{self.name}-service"

    @property
    def mutating(self) -> str:
        return f"{self.name}-mutating-config"

    @property
    def validating(self) -> str:
        return f"{self.name}-validating-config"

    def registration(self, resource: Resource, *, bundle: str) -> JSON:
        """The webhook configuration of this kind. `bundle` is the base64 value of caBundle."""
        path, name, build = "/mutate", self.mutating, pods_to
        if resource == VALIDATING_WEBHOOKS:
            path, name, build = "/validate", self.validating, objects_to
        called = {"caBundle": bundle, "service": {"namespace": self.namespace, "name": self.service, "path": path}}
        exempt = tuple(dict.fromkeys(["kube-system", self.namespace]))
        terms = Terms(exempt, self.failure_policy, self.timeout_seconds or TIMEOUT_SECONDS)
        return build(called, name=name, webhook=f"{name}.{_DOMAIN}", terms=terms)


def service_of(installation: Installation, *, target_port: int | str | None = None) -> JSON:
    """Port 443 to the webhook's port (`TARGET_PORT`, if none is given) on the Pods labeled `app=<name>`."""
    port = {"name": "https", "port": PORT, "protocol": "TCP", "targetPort": target_port or TARGET_PORT}
    metadata = {"name": installation.service, "namespace": installation.namespace}
    return SERVICES.body(metadata, spec={"ports": [port], "selector": {"app": installation.name}})


def pods_to(client_config: JSON, *, name: str, webhook: str, terms: Terms) -> JSON:
    """A MutatingWebhookConfiguration for the creation of Pods.

    Reinvocation is IfNeeded: Berth injects into what later webhooks add, and changes nothing where nothing is missing.
    """
    entry = _entry(client_config, webhook, rules_of("pods"), terms) | {"reinvocationPolicy": "IfNeeded"}
    return MUTATING_WEBHOOKS.body({"name": name}, webhooks=[entry])


def objects_to(client_config: JSON, *, name: str, webhook: str, terms: Terms) -> JSON:
    """A ValidatingWebhookConfiguration for network attachments, and for rules and the other kinds of Berth's own."""
    return VALIDATING_WEBHOOKS.body(
        {"name": name}, webhooks=[_entry(client_config, webhook, rules_of("attachments", "objects"), terms)]
    )


def _entry(client_config: JSON, name: str, rules: list[JSON], terms: Terms) -> JSON:
    selector = {"key": NAMESPACE_NAME, "operator": "NotIn", "values": list(terms.exempt)}
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config,
        "rules": rules,
        "namespaceSelector": {"matchExpressions": [selector]},
        "failurePolicy": terms.failure_policy,
        # The side effect is the Event on a denial. A dry run records none.
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": terms.timeout_seconds,
    }


def rules_of(*kinds: ReviewKind) -> list[JSON]:
    """The rules of a webhook for these reviews. Kinds of clusters that do not have them do no harm here."""
    return [
        {
            "operations": list(rule.operations),
            "apiGroups": [rule.group],
            "apiVersions": [rule.version],
            "resources": list(rule.resources),
        }
        for rule in reviews_of(*kinds)
    ]


def further_webhooks(
    kind: ReviewKind,
    called: JSON,
    *,
    exempt: tuple[str, ...],
    sources: Mapping[str, Sequence[str]] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[JSON]:
    """The webhooks for reviews of this kind, as the chart registers them, which makes them of the same descriptors.

    `sources` has the texts of sources of the chart; without them a source stands for the `exempt` namespaces. With
    `settings` of the webhook only what these turn on is registered, without them all.

    `called` is what they share with other webhooks: clientConfig, failurePolicy and so on. `berth certs install` makes
    none of these, for an installation in the place of Network Resources Injector has neither tenants nor AppWrappers.
    """
    texts, entries = sources or {}, list[JSON]()
    for webhook in webhooks_of(kind):
        if not is_charted(webhook.when, settings):
            continue
        entry = called | {
            "name": f"{webhook.name}.berth.dev",
            "rules": [rule | {"scope": webhook.scope} for rule in rules_of(kind)],
        }
        for field, requirements in (("namespaceSelector", webhook.namespaces), ("objectSelector", webhook.objects)):
            chosen = [requirement for requirement in requirements if is_charted(requirement.when, settings)]
            if chosen:
                expressions = [_expression(requirement, exempt, texts) for requirement in chosen]
                entry[field] = {"matchExpressions": expressions}
        if conditions := [condition for condition in webhook.conditions if is_charted(condition.when, settings)]:
            entry["matchConditions"] = [
                {"name": condition.name, "expression": _cel(condition, texts, settings)} for condition in conditions
            ]
        entries.append(entry)
    return entries


def is_charted(when: str, settings: Mapping[str, Any] | None) -> bool:
    """Whether sources of the chart are on; of its values those of the webhook's flags are known, the others are."""
    for source in filter(None, when.split(",") if settings is not None else ()):
        name = source.removeprefix("!")
        if name.startswith(_ARGUMENTS):
            field = re.sub("([A-Z])", r"_\1", name.removeprefix(_ARGUMENTS)).lower()
            if ((settings or {}).get(field) in (False, None, "", "off")) != source.startswith("!"):
                return False
    return True


def _cel(condition: Condition, sources: Mapping[str, Sequence[str]], settings: Mapping[str, Any] | None) -> str:
    """One of its terms is true. As in the chart, a term that wants texts, and has none, is left out."""
    expressions = list[str]()
    for term in condition_terms(condition):
        texts = sources.get(term.values, ())
        if is_charted(term.when, settings) and (texts or not term.values):
            expressions.append(term.expression.replace("{values}", listed(texts)))
    return " || ".join(expressions)


def _expression(requirement: Requirement, exempt: tuple[str, ...], sources: Mapping[str, Sequence[str]]) -> JSON:
    values = sources.get(requirement.source, exempt) if requirement.source else requirement.values
    return {"key": requirement.key, "operator": requirement.operator} | ({"values": list(values)} if values else {})


@dataclass(frozen=True, slots=True)
class Installed:
    """What a replica serves with (`files`: tls.crt, tls.key), when it is due again, and whether we issued it."""

    files: dict[str, bytes]
    issued: bool
    next_due: datetime


async def install(
    client: KubeClient, installation: Installation, *, now: datetime, sleep: Sleep = asyncio.sleep
) -> Installed:
    """Secret, Service and webhook configurations, in this order; any number of replicas at once.

    Raises ApiError where the API server does not let us, Terminal for a Secret that others use.
    """
    return await until_no_conflict(lambda: _install_once(client, installation, now=now), sleep=sleep)


async def _install_once(client: KubeClient, installation: Installation, *, now: datetime) -> Installed:
    held, issued = await _certificates(client, installation, now=now)
    present = await get_or_none(client, SERVICES, installation.service, namespace=installation.namespace)
    ports: list[JSON] = ((present or {}).get("spec") or {}).get("ports") or []
    # The targetPort of an existing Service is kept, because the webhook's port was chosen to match it.
    target = next((port.get("targetPort") for port in ports if port.get("port") == PORT), None)
    body = _over(present, service_of(installation, target_port=target))
    await client.apply(SERVICES, installation.service, body, namespace=installation.namespace)
    for resource, name in ((MUTATING_WEBHOOKS, installation.mutating), (VALIDATING_WEBHOOKS, installation.validating)):
        present = await get_or_none(client, resource, name)
        ours = _webhook(present, installation)
        timeout = installation.timeout_seconds or ours.get("timeoutSeconds")
        bundle = patching.merged_bundle(
            (ours.get("clientConfig") or {}).get("caBundle") or "",
            held.trusted,
            now=now,
            keeps=rotation.needed_still(held, days=DAYS, now=now),
        )
        body = replace(installation, timeout_seconds=timeout).registration(resource, bundle=bundle)
        await client.apply(resource, name, _over(present, body))
    serving = {name: held.files[name] for name in (f"{SERVING}.crt", f"{SERVING}.key")}
    return Installed(serving, issued, held.next_due)


async def _certificates(
    client: KubeClient, installation: Installation, *, now: datetime
) -> tuple[CertificateSet, bool]:
    """What the Secret holds after this call, and whether this call has written it.

    A Secret of another installer is taken over, with or without our label, because its name is the one that is given.
    """
    secret = await read_secret(client, installation.name, namespace=installation.namespace)
    _check_takeover(secret)
    names = issuing.serving_names(service=installation.service, namespace=installation.namespace, dns=installation.dns)
    present = CertificateSet.parse(secret.files, leaves=[SERVING])
    following = rotation.successor(present, rotation.webhook(names), now=now)
    held = rotation.without_outlived(following, days=DAYS, now=now)
    if written := held.files != secret.files:
        await write_secret(client, secret, held.files)
    return held, written


def _check_takeover(secret: StoredFiles) -> None:
    """Raise Terminal where a Secret without our label has more than certificates, or is kept by cert-manager.

    What is written replaces all that it has.
    """
    others = sorted(name for name in secret.entries if not name.endswith(_CERTIFICATES))
    if secret.ours or not (others or CERT_MANAGER in secret.annotations):
        return
    what = f"has {', '.join(map(cut, others[:3]))}" if others else "is written by cert-manager"
    raise Terminal(
        f"{secret.place} is not managed by Berth and {what}: nothing is written; give another --name, or, if nothing "
        f"else needs it, hand it over with the label {MANAGED_BY}={MANAGER}"
    )


def _over(present: JSON | None, body: JSON) -> JSON:
    """`body`, to be written over `present` alone: a rival may have put a newer CA there; then conflict, and again."""
    if present is not None:
        body["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
    return body


def _webhook(present: JSON | None, installation: Installation) -> JSON:
    """The webhook of a configuration that calls our Service, {} where there is none."""
    service = patching.ServiceName(installation.namespace, installation.service)
    webhooks: list[JSON] = (present or {}).get("webhooks") or []
    return next((webhook for webhook in webhooks if patching.called_service(webhook) == service), {})
