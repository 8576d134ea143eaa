"""What Services on secondary networks need at an API server."""

from __future__ import annotations

from app.kube.resources import (
    ENDPOINT_SLICES,
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
)
from app.wiring import READ, Permission, Permissions

_WATCH = ("list", "watch")
PERMISSIONS: Permissions = {
    "network-services": (
        Permission("cluster", "", (SERVICES.plural, PODS.plural, NODES.plural), _WATCH),
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), _WATCH),
        Permission("cluster", RESOURCE_CLAIMS.group, (RESOURCE_CLAIMS.plural, RESOURCE_SLICES.plural), _WATCH),
        Permission("cluster", ENDPOINT_SLICES.group, (ENDPOINT_SLICES.plural,), (*READ, "create", "patch", "delete")),
    ),
    "ui": (
        Permission("cluster", "", (SERVICES.plural,), READ),
        Permission("cluster", ENDPOINT_SLICES.group, (ENDPOINT_SLICES.plural,), READ),
    ),
}
