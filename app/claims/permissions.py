"""What claims need at an API server: reviews and permissions.

Since Kubernetes 1.36 a writer of `status.devices` needs a permission for the driver of each entry that it changes
(KEP-4817, gate DRAResourceClaimGranularStatusAuthorization). Before, nothing asks for it.
"""

from __future__ import annotations

from app.claims.admission.webhooks import STATUS_REVIEW, STATUS_WEBHOOKS
from app.claims.injection.webhooks import INJECTION_REVIEWS, INJECTION_WEBHOOKS
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    ENDPOINT_SLICES,
    NETWORK_ATTACHMENTS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from app.wiring import READ, Permission, Permissions

_GROUP, _CLAIMS = RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.plural
_WATCH = ("list", "watch")


def _publishing(verb: str) -> tuple[Permission, ...]:
    """`verb` is the one for drivers. Without names it holds for all drivers."""
    return (
        Permission("cluster", "", ("pods",), READ),
        Permission("cluster", _GROUP, (_CLAIMS, RESOURCE_SLICES.plural), READ),
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), READ),
        Permission("cluster", _GROUP, (f"{_CLAIMS}/status",), ("patch",)),
        Permission("cluster", _GROUP, (f"{_CLAIMS}/driver",), (verb,), names=("{claims_drivers}",)),
    )


_INJECTION = (
    Permission("cluster", _GROUP, (DEVICE_CLASSES.plural,), READ, when="claims"),
    Permission("cluster", _GROUP, (RESOURCE_CLAIM_TEMPLATES.plural, RESOURCE_CLAIMS.plural), READ, when="claims"),
    Permission("release", "", (CONFIG_MAPS.plural,), READ, names=("{claim_templates}",), when="claims"),
)
"""What the webhook reads for injection."""
_ADMISSION = (
    Permission("cluster", _GROUP, (_CLAIMS,), ("list", "watch"), when="claims"),
    Permission("cluster", "", ("pods",), ("list", "watch"), when="claims"),
)
"""What it reads for statuses: the addresses and interfaces of claims and Pods. Attachments it reads in any case."""
_TEMPLATES = (
    Permission("cluster", "", ("pods",), ("list", "watch")),
    Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), ("list", "watch")),
    Permission("cluster", _GROUP, (DEVICE_CLASSES.plural,), ("list", "watch")),
    Permission("cluster", _GROUP, (RESOURCE_CLAIM_TEMPLATES.plural,), (*READ, "create", "delete")),
    Permission("release", "", (CONFIG_MAPS.plural,), READ, names=("{claim_templates}",)),
)
"""What the controller of templates needs."""

REVIEWS = (*INJECTION_REVIEWS, STATUS_REVIEW)
WEBHOOKS = (*INJECTION_WEBHOOKS, *STATUS_WEBHOOKS)
PERMISSIONS: Permissions = {
    "webhook": (*_INJECTION, *_ADMISSION),
    "claim-templates": _TEMPLATES,
    "claims": _publishing("arbitrary-node:patch"),
    # With this verb the API server compares the node of the token with the one of the devices. Before 1.36, a
    # ValidatingAdmissionPolicy of the chart alone does.
    "claims-node": (
        *_publishing("associated-node:patch"),
        Permission("cluster", "", ("events",), ("create", "patch")),
    ),
    "network-services": (
        Permission("cluster", "", ("services", "pods", "nodes"), _WATCH),
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), _WATCH),
        Permission("cluster", _GROUP, (_CLAIMS, RESOURCE_SLICES.plural), _WATCH),
        Permission("cluster", ENDPOINT_SLICES.group, (ENDPOINT_SLICES.plural,), (*READ, "create", "patch", "delete")),
    ),
}
