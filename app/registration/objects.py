"""The objects that make an API server call Berth: a Service and two webhook configurations. Pure.

Names and fields are those of Network Resources Injector's installer, so that applying them over its objects updates
these in place; what it lacks (a timeout, the check of attachments) is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.kube.resources import MUTATING_WEBHOOKS, SERVICES, VALIDATING_WEBHOOKS, Resource
from app.registry import reviews_of, webhooks_of
from app.wire import JSON
from app.wiring import NAMESPACE_NAME, Requirement, ReviewKind, Term

FailurePolicy = Literal["Ignore", "Fail"]
PORT = 443
"""Of the Service."""
TARGET_PORT = 8443
TIMEOUT_SECONDS = 10
_DOMAIN = "k8s.cni.cncf.io"


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
    kind: ReviewKind, called: JSON, *, exempt: tuple[str, ...], sources: Mapping[str, Sequence[str]] | None = None
) -> list[JSON]:
    """The webhooks for reviews of this kind.

    `sources` has the texts of sources of the chart; without them a source stands for the `exempt` namespaces.

    `called` is what they share with other webhooks: clientConfig, failurePolicy and so on. The chart makes them of the
    same descriptors; `berth certs install` does not make them, for an installation in the place of Network Resources
    Injector has neither tenants nor AppWrappers.
    """
    said = sources or {}
    entries = []
    for webhook in webhooks_of(kind):
        entry = called | {
            "name": f"{webhook.name}.berth.dev",
            "rules": [rule | {"scope": webhook.scope} for rule in rules_of(kind)],
            "namespaceSelector": {
                "matchExpressions": [_expression(requirement, exempt, said) for requirement in webhook.namespaces]
            },
        }
        if webhook.conditions:
            entry["matchConditions"] = [
                {"name": condition.name, "expression": " || ".join(_cel(term, said) for term in condition.terms)}
                for condition in webhook.conditions
            ]
        entries.append(entry)
    return entries


def _cel(term: Term, sources: Mapping[str, Sequence[str]]) -> str:
    values = ", ".join(f"'{text}'" for text in sources.get(term.values, ()))
    return term.expression.replace("{values}", f"[{values}]")


def _expression(one: Requirement, exempt: tuple[str, ...], sources: Mapping[str, Sequence[str]]) -> JSON:
    values = sources.get(one.source, exempt) if one.source else one.values
    return {"key": one.key, "operator": one.operator} | ({"values": list(values)} if values else {})
