"""What injection and its checks review, and which objects their webhooks are called for."""

from __future__ import annotations

from app.appwrappers.model import APP_WRAPPERS
from app.claims.definitions import CLASS_DEFINITION
from app.claims.injection.pairs import PREFIX
from app.kube.resources import CONFIG_MAPS, DEVICE_CLASSES, JOBS
from app.networks.places import INJECT_TEMPLATE
from app.wiring import EXEMPT, NAMESPACE_NAME, Condition, Requirement, ReviewRule, Term, Webhook

SERVED = "webhook.args.claims"
_DRA = DEVICE_CLASSES.group
INJECTION_REVIEWS = (
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


ASKS = (Term(_asks("containers"), when=SERVED), Term(_asks("initContainers"), when=SERVED))
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
        when=SERVED,
    ),
    Webhook(
        "claim-definitions",
        "claim-definitions",
        values="claimInjection",
        namespaces=(Requirement(NAMESPACE_NAME, "In", source="berth.ownNamespace"),),
        conditions=(
            Condition("is-ours", (Term("object.metadata.name in {values}", values="berth.claimTemplatesName"),)),
        ),
        when=SERVED,
    ),
    Webhook(
        "device-classes",
        "device-classes",
        values="claimInjection",
        scope="*",
        conditions=(Condition("defines-claims", (Term(_DEFINES),)),),
        when=SERVED,
    ),
    Webhook(
        "pod-templates",
        "pod-templates",
        values="claimInjection",
        namespaces=(EXEMPT,),
        conditions=(Condition("asks-for-injection", (Term(_MARKED),)),),
        when=SERVED,
        # Of AppWrappers, whose defaults follow from the user.
        proven=True,
    ),
)
