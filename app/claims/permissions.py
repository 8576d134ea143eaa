"""What claims need at an API server: reviews, the webhooks that are called for them, and permissions.

Since Kubernetes 1.36 a writer of `status.devices` needs a permission for the driver of each entry that it changes
(KEP-4817, gate DRAResourceClaimGranularStatusAuthorization). Before, nothing asks for it.
"""

from __future__ import annotations

from app.appwrappers.model import APP_WRAPPERS
from app.claims.definitions import CLASS_DEFINITION
from app.claims.injection.claims import PREFIX
from app.claims.model import CHANGES_NETWORK_DATA
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    JOBS,
    NETWORK_ATTACHMENTS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from app.networks.places import INJECT_TEMPLATE
from app.wiring import (
    EXEMPT,
    NAMESPACE_NAME,
    READ,
    Condition,
    Permission,
    Permissions,
    Requirement,
    ReviewRule,
    Term,
    Webhook,
)

_GROUP, _CLAIMS = RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.plural
_WATCH = ("list", "watch")
_SERVED = "webhook.args.claims"
_DRA = DEVICE_CLASSES.group
_INJECTION_REVIEWS = (
    ReviewRule("claim-pods", "", "v1", ("pods",), ("CREATE",)),
    ReviewRule("claim-definitions", "", "v1", (CONFIG_MAPS.plural,)),
    ReviewRule("device-classes", _DRA, DEVICE_CLASSES.version, (DEVICE_CLASSES.plural,)),
    ReviewRule("pod-templates", JOBS.group, JOBS.version, (JOBS.plural,), ("CREATE",)),
    ReviewRule("pod-templates", APP_WRAPPERS.group, APP_WRAPPERS.version, (APP_WRAPPERS.plural,), ("CREATE",)),
)


def _asks(kind: str) -> str:
    side = "has(c.resources.{0}) && c.resources.{0}.exists(key, key.startsWith('" + PREFIX + "'))"
    sides = " || ".join(f"({side.format(name)})" for name in ("limits", "requests"))
    return f"has(object.spec.{kind}) && object.spec.{kind}.exists(c, has(c.resources) && ({sides}))"


ASKS = (Term(_asks("containers"), when=_SERVED), Term(_asks("initContainers"), when=_SERVED))
"""Pods whose containers ask for a definition as if it were a resource."""
_MARKED = " || ".join(
    f"(has(object.metadata.{where}) && '{INJECT_TEMPLATE}' in object.metadata.{where} && "
    f"object.metadata.{where}['{INJECT_TEMPLATE}'] == 'true')"
    for where in ("annotations", "labels")
)
_DEFINES = f"has(object.metadata.annotations) && '{CLASS_DEFINITION}' in object.metadata.annotations"
INJECTION_WEBHOOKS = (
    Webhook(
        "claim-pods",
        "claim-pods",
        values="claimInjection",
        namespaces=(EXEMPT,),
        conditions=(
            Condition("has-claims", (Term("has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0"),)),
        ),
        when=_SERVED,
    ),
    Webhook(
        "claim-definitions",
        "claim-definitions",
        values="claimInjection",
        namespaces=(Requirement(NAMESPACE_NAME, "In", source="berth.ownNamespace"),),
        conditions=(
            Condition("is-ours", (Term("object.metadata.name in {values}", values="berth.claimTemplatesName"),)),
        ),
        when=_SERVED,
    ),
    Webhook(
        "device-classes",
        "device-classes",
        values="claimInjection",
        scope="*",
        conditions=(Condition("defines-claims", (Term(_DEFINES),)),),
        when=_SERVED,
    ),
    Webhook(
        "pod-templates",
        "pod-templates",
        values="claimInjection",
        namespaces=(EXEMPT,),
        conditions=(Condition("asks-for-injection", (Term(_MARKED),)),),
        when=_SERVED,
        # Of AppWrappers, whose defaults follow from the user.
        proven=True,
    ),
)
STATUS_REVIEW = ReviewRule(
    "claim-status", RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.version, (f"{RESOURCE_CLAIMS.plural}/status",), ("UPDATE",)
)
STATUS_WEBHOOKS = (
    Webhook(
        "claim-status",
        "claim-status",
        values="claims",
        namespaces=(EXEMPT,),
        conditions=(Condition("changes-network-data", (Term(CHANGES_NETWORK_DATA),)),),
        when=_SERVED,
        proven=True,
    ),
)
REVIEWS = (*_INJECTION_REVIEWS, STATUS_REVIEW)
WEBHOOKS = (*INJECTION_WEBHOOKS, *STATUS_WEBHOOKS)


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
}
