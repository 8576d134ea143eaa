"""What injection of networks needs at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from app.admission.injected import INJECTED_BY
from app.kube.resources import (
    CLUSTER_ROLES,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NETWORK_ATTACHMENTS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
)
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

_POLICIES = (MUTATING_POLICIES, VALIDATING_POLICIES, MUTATING_POLICY_BINDINGS, VALIDATING_POLICY_BINDINGS)
_WATCH = ("list", "watch")
PERMISSIONS: Permissions = {
    "webhook": (
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), READ),
        Permission("release", "", ("configmaps",), READ, (CONFIG_MAP_NAME,)),
    ),
    "policies": (
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), _WATCH),
        Permission("release", "", ("configmaps",), _WATCH, (CONFIG_MAP_NAME, "{policies_config}")),
        Permission(
            "cluster", MUTATING_WEBHOOKS.group, (MUTATING_WEBHOOKS.plural,), (*_WATCH, "patch"), ("{policies_name}",)
        ),
        Permission("cluster", CLUSTER_ROLES.group, (CLUSTER_ROLES.plural,), _WATCH, ("{policies_owner}",)),
        Permission(
            "cluster",
            MUTATING_POLICIES.group,
            tuple(resource.plural for resource in _POLICIES),
            (*READ, "create", "update", "delete"),
        ),
    ),
    "ui": (
        Permission("cluster", NETWORK_ATTACHMENTS.group, (NETWORK_ATTACHMENTS.plural,), READ),
        Permission("cluster", MUTATING_POLICIES.group, tuple(resource.plural for resource in _POLICIES), READ),
        Permission("cluster", "", ("configmaps",), READ, (CONFIG_MAP_NAME,)),
        # The names of others follow the values of the release.
        Permission("release", "", ("configmaps",), READ),
    ),
}
