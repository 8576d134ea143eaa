"""The objects that make an API server call Berth: a Service and two webhook configurations. Pure.

Names and fields are those of Network Resources Injector's installer, so that applying them over its objects updates
these in place; what it lacks (a timeout, the check of attachments) is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.kube.resources import MUTATING_WEBHOOKS, SERVICES, VALIDATING_WEBHOOKS, Resource
from app.registry import reviews_of
from app.wire import JSON

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
    """What `berth certs install` is told. `name` is the prefix of all objects, and the name of the Secret.

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

    @property
    def terms(self) -> Terms:
        exempt = tuple(dict.fromkeys(["kube-system", self.namespace]))
        return Terms(exempt, self.failure_policy, self.timeout_seconds or TIMEOUT_SECONDS)

    def called(self, path: str, bundle: str) -> JSON:
        """The clientConfig of a webhook."""
        return {"caBundle": bundle, "service": {"namespace": self.namespace, "name": self.service, "path": path}}


def service_of(installation: Installation, *, target_port: int | str | None = None) -> JSON:
    """Port 443 to the webhook's port (`TARGET_PORT`, if none is given) on the Pods labeled `app=<name>`."""
    port = {"name": "https", "port": PORT, "protocol": "TCP", "targetPort": target_port or TARGET_PORT}
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {"name": installation.service, "namespace": installation.namespace},
        "spec": {"ports": [port], "selector": {"app": installation.name}},
    }


def mutating_of(installation: Installation, *, bundle: str) -> JSON:
    """Every Pod that is created goes to `/mutate`. `bundle` is the base64 value of caBundle."""
    name = installation.mutating
    called = installation.called("/mutate", bundle)
    return pods_to(called, name=name, webhook=f"{name}.{_DOMAIN}", terms=installation.terms)


def validating_of(installation: Installation, *, bundle: str) -> JSON:
    """Every attachment, and every object of our own kinds, that is created or updated goes to `/validate`."""
    name = installation.validating
    called = installation.called("/validate", bundle)
    return objects_to(called, name=name, webhook=f"{name}.{_DOMAIN}", terms=installation.terms)


def pods_to(client_config: JSON, *, name: str, webhook: str, terms: Terms) -> JSON:
    """A MutatingWebhookConfiguration for the creation of Pods.

    Reinvocation is IfNeeded: Berth injects into what later webhooks add, and changes nothing where nothing is missing.
    """
    rules = rules_of("mutate")
    body = _configuration(MUTATING_WEBHOOKS, client_config, name=name, webhook=webhook, rules=rules, terms=terms)
    body["webhooks"][0]["reinvocationPolicy"] = "IfNeeded"
    return body


def objects_to(client_config: JSON, *, name: str, webhook: str, terms: Terms) -> JSON:
    """A ValidatingWebhookConfiguration for network attachments, and for rules and the other kinds of Berth's own."""
    rules = rules_of("validate")
    return _configuration(VALIDATING_WEBHOOKS, client_config, name=name, webhook=webhook, rules=rules, terms=terms)


def rules_of(webhook: str) -> list[JSON]:
    """The rules of a webhook. Kinds of clusters that do not have them do no harm here."""
    return [
        {
            "operations": list(rule.operations),
            "apiGroups": [rule.group],
            "apiVersions": [rule.version],
            "resources": list(rule.resources),
        }
        for rule in reviews_of(webhook)
    ]


def _configuration(
    resource: Resource, client_config: JSON, *, name: str, webhook: str, rules: list[JSON], terms: Terms
) -> JSON:
    selector = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(terms.exempt)}
    entry = {
        "name": webhook,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config,
        "rules": rules,
        "namespaceSelector": {"matchExpressions": [selector]},
        "failurePolicy": terms.failure_policy,
        # The side effect is the Event on a denial. A dry run records none.
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": terms.timeout_seconds,
    }
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "webhooks": [entry],
    }
