"""The webhook configurations that call a Berth under a URL, for the sandbox and for a bare API server. Pure."""

from __future__ import annotations

from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.wire import JSON

NAME = "berth"


def configurations(*, url: str, bundle: str) -> list[tuple[Resource, JSON]]:
    """A MutatingWebhookConfiguration for Pods and a ValidatingWebhookConfiguration for attachments.

    `bundle` is the base64 value of caBundle. IfNeeded, for Berth injects into what later webhooks add and changes
    nothing where nothing is missing.
    """
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    attachments = {
        "apiGroups": ["k8s.cni.cncf.io"],
        "apiVersions": ["v1"],
        "resources": ["network-attachment-definitions"],
        "operations": ["CREATE", "UPDATE"],
    }
    mutate = _webhook("mutate.berth.dev", url=f"{url}/mutate", bundle=bundle, rule=pods) | {
        "reinvocationPolicy": "IfNeeded"
    }
    validate = _webhook("validate.berth.dev", url=f"{url}/validate", bundle=bundle, rule=attachments)
    return [
        (MUTATING_WEBHOOKS, _configuration(MUTATING_WEBHOOKS, mutate)),
        (VALIDATING_WEBHOOKS, _configuration(VALIDATING_WEBHOOKS, validate)),
    ]


def _configuration(resource: Resource, webhook: JSON) -> JSON:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": NAME},
        "webhooks": [webhook],
    }


def _webhook(name: str, *, url: str, bundle: str, rule: JSON) -> JSON:
    return {
        "name": name,
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        "namespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
            ]
        },
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
    }
