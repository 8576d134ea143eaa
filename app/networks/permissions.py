"""What injection of networks needs at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.switches import CONFIG_MAP_NAME
from app.wiring import READ, Permission, Permissions, ReviewRule

ATTACHMENTS = (NETWORK_ATTACHMENTS,)
"""Multus defines them."""

REVIEWS = (
    ReviewRule("mutate", "", "v1", ("pods",), ("CREATE",)),
    ReviewRule("validate", NETWORK_ATTACHMENTS.group, NETWORK_ATTACHMENTS.version, (NETWORK_ATTACHMENTS.plural,)),
)

PERMISSIONS: Permissions = {
    "webhook": (
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), READ),
        Permission("release", "", ("configmaps",), READ, (CONFIG_MAP_NAME,)),
    ),
}
