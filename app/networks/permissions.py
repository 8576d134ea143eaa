"""What injection of networks needs at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from app.admission.injected import INJECTED_BY
from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.settings import CONFIG_MAP_NAME
from app.wiring import EXEMPT, READ, Permission, Permissions, ReviewRule, Term, Webhook

ATTACHMENTS = (NETWORK_ATTACHMENTS,)
"""Multus defines them."""

REVIEWS = (
    ReviewRule("pods", "", "v1", ("pods",), ("CREATE",)),
    ReviewRule("attachments", NETWORK_ATTACHMENTS.group, NETWORK_ATTACHMENTS.version, (NETWORK_ATTACHMENTS.plural,)),
)
ASKS = (
    NETWORKS,
    DEFAULT_NETWORK,
    Term(
        "has(object.metadata.labels) && {values}.exists(key, key in object.metadata.labels)",
        values="berth.injectionLabels",
    ),
    # One that a client has made up is corrected.
    Term(
        f"has(object.metadata.annotations) && '{INJECTED_BY}' in object.metadata.annotations",
        when="webhook.args.injectedAnnotation",
    ),
)
WEBHOOKS = (
    Webhook(
        "attachments",
        "attachments",
        values="attachments",
        namespaces=(EXEMPT,),
        when="webhook.webhooks.attachments.enabled",
    ),
)

PERMISSIONS: Permissions = {
    "webhook": (
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), READ),
        Permission("release", "", ("configmaps",), READ, (CONFIG_MAP_NAME,)),
    ),
}
