"""The webhooks for Pods, Pod templates and claims of devices in tenants' namespaces. Pure.

The chart writes the same (`berth.tenantIsolation`). `berth certs install` does not: an installation in the place of
Network Resources Injector has no tenants.
"""

from __future__ import annotations

from typing import Final

from app.placement.model import TENANT_LABEL, TENANT_NAMESPACE_PREFIX
from app.wire import JSON
from app.workloads.tenant_pods import CLAIMS, TEMPLATES

ISOLATION: Final = "tenant-isolation"
"""How the names of these webhooks begin."""
OPERATIONS: Final = ("CREATE", "UPDATE")
_VERSIONS = {"resource.k8s.io": "*"}


def isolated_resources() -> list[tuple[str, str]]:
    """Group and plural of each kind that is checked (the plurals are regular), and of what changes Pods besides."""
    kinds = [(group, f"{kind.lower()}s") for group, kind in (*TEMPLATES, *CLAIMS)]
    return [*kinds, ("", "pods/ephemeralcontainers")]


def isolation_webhooks(called: JSON, *, domain: str = "berth.dev", exempt: tuple[str, ...]) -> list[JSON]:
    """The entries for namespaces with the label of a tenant, and for those that are a tenant's by their name alone.

    `called` is what they share with other webhooks: clientConfig, failurePolicy and so on. Nothing opts out of them.
    """
    labeled = called | {
        "name": f"{ISOLATION}.{domain}",
        "rules": _rules(),
        "namespaceSelector": _selector("Exists", exempt),
    }
    # A selector cannot match the beginning of a name. The condition keeps all other Pods from waiting for Berth.
    expression = f"request.namespace.startsWith('{TENANT_NAMESPACE_PREFIX}')"
    by_name = labeled | {
        "name": f"{ISOLATION}-by-name.{domain}",
        "namespaceSelector": _selector("DoesNotExist", exempt),
        "matchConditions": [{"name": "is-named-as-of-a-tenant", "expression": expression}],
    }
    return [labeled, by_name]


def _rules() -> list[JSON]:
    plurals: dict[str, list[str]] = {}
    for group, plural in isolated_resources():
        plurals.setdefault(group, []).append(plural)
    return [
        {
            "operations": list(OPERATIONS),
            "apiGroups": [group],
            "apiVersions": [_VERSIONS.get(group, "v1")],
            "resources": found,
            "scope": "Namespaced",
        }
        for group, found in plurals.items()
    ]


def _selector(operator: str, exempt: tuple[str, ...]) -> JSON:
    return {
        "matchExpressions": [
            {"key": TENANT_LABEL, "operator": operator},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(exempt)},
        ]
    }
