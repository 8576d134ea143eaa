"""The webhooks for Pods, Pod templates and claims of devices in tenants' namespaces. Pure.

The chart writes the same (`berth.tenantIsolation`). `berth certs install` does not: an installation in the place of
Network Resources Injector has no tenants.
"""

from __future__ import annotations

from typing import Final

from app.placement.model import TENANT_LABEL, TENANT_NAMESPACE_PREFIX
from app.registration.objects import rules_of
from app.wire import JSON

ISOLATION: Final = "tenant-isolation"
"""How the names of these webhooks begin."""


def isolation_webhooks(called: JSON, *, domain: str = "berth.dev", exempt: tuple[str, ...]) -> list[JSON]:
    """The entries for namespaces with the label of a tenant, and for those that are a tenant's by their name alone.

    `called` is what they share with other webhooks: clientConfig, failurePolicy and so on. Nothing opts out of them.
    """
    labeled = called | {
        "name": f"{ISOLATION}.{domain}",
        "rules": [rule | {"scope": "Namespaced"} for rule in rules_of("tenants")],
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


def _selector(operator: str, exempt: tuple[str, ...]) -> JSON:
    return {
        "matchExpressions": [
            {"key": TENANT_LABEL, "operator": operator},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(exempt)},
        ]
    }
