"""The objects that make an API server call Berth: a Service and two webhook configurations. Pure.

Names and fields are those of Network Resources Injector's installer, so that applying them over its objects updates
these in place; what it lacks (a timeout, the check of attachments) is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.kube.resources import MUTATING_WEBHOOKS, SERVICES, VALIDATING_WEBHOOKS
from app.wire import JSON

FailurePolicy = Literal["Ignore", "Fail"]
_DOMAIN = "k8s.cni.cncf.io"


@dataclass(frozen=True, slots=True)
class Installation:
    """What `berth certs install` is told. `name` is the prefix of all objects, and the name of the Secret."""

    namespace: str = "kube-system"
    name: str = "network-resources-injector"
    failure_policy: FailurePolicy = "Fail"
    timeout_seconds: int = 10
    target_port: int = 8443
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


def service_of(installation: Installation) -> JSON:
    """Port 443 to the webhook's port on the Pods labeled `app=<name>`."""
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": installation.target_port}
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {"name": installation.service, "namespace": installation.namespace},
        "spec": {"ports": [port], "selector": {"app": installation.name}},
    }


def mutating_of(installation: Installation, *, bundle: str) -> JSON:
    """Every Pod that is created goes to `/mutate`. `bundle` is the base64 value of caBundle."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.kind,
        "metadata": {"name": installation.mutating},
        "webhooks": [_webhook(installation, name=installation.mutating, path="/mutate", rule=rule, bundle=bundle)],
    }


def validating_of(installation: Installation, *, bundle: str) -> JSON:
    """Every network attachment that is created or updated goes to `/validate`."""
    rule = {
        "operations": ["CREATE", "UPDATE"],
        "apiGroups": [_DOMAIN],
        "apiVersions": ["v1"],
        "resources": ["network-attachment-definitions"],
    }
    return {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": VALIDATING_WEBHOOKS.kind,
        "metadata": {"name": installation.validating},
        "webhooks": [_webhook(installation, name=installation.validating, path="/validate", rule=rule, bundle=bundle)],
    }


def _webhook(installation: Installation, *, name: str, path: str, rule: JSON, bundle: str) -> JSON:
    exempt = list(dict.fromkeys(["kube-system", installation.namespace]))
    selector = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt}
    return {
        "name": f"{name}.{_DOMAIN}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "caBundle": bundle,
            "service": {"namespace": installation.namespace, "name": installation.service, "path": path},
        },
        "rules": [rule],
        "namespaceSelector": {"matchExpressions": [selector]},
        "failurePolicy": installation.failure_policy,
        "sideEffects": "None",
        "timeoutSeconds": installation.timeout_seconds,
    }
