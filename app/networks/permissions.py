"""What injection of networks needs at an API server."""

from __future__ import annotations

from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.switches import CONFIG_MAP_NAME
from app.wiring import READ, Permission, Permissions

NEEDS = (NETWORK_ATTACHMENTS,)
"""The kinds that have to be defined."""

PERMISSIONS: Permissions = {
    "webhook": (
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), READ),
        Permission("release", "", ("configmaps",), READ, (CONFIG_MAP_NAME,)),
    ),
}
