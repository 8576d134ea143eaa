"""What claims need at an API server: reviews, the webhooks that are called for them, a policy and permissions. Pure.

The policy is the spec of a ValidatingAdmissionPolicy that holds statuses of claims to the rules of `app.claims.format`.
It is generated into the chart and works without Berth. All functions in it are in the CEL of Kubernetes 1.31:
https://kubernetes.io/docs/reference/using-api/cel/

Since Kubernetes 1.36 a writer of `status.devices` needs a permission for the driver of each entry that it changes
(KEP-4817, gate DRAResourceClaimGranularStatusAuthorization). Before, nothing asks for it.
"""

from __future__ import annotations

from app.appwrappers.model import APP_WRAPPERS
from app.claims.definitions import CLASS_DEFINITION
from app.claims.format import (
    ADDRESS_RULES,
    HARDWARE_ADDRESS,
    INTERFACE_NAME,
    IPS,
    LEAST_PREFIX,
    PREFIX_WANT,
    TEXT_RULES,
    AddressRule,
    TextRule,
)
from app.claims.injection.claims import PREFIX
from app.claims.model import CHANGED_ENTRIES, CHANGES_NETWORK_DATA, NEW_ENTRIES
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
from app.text import MESSAGE
from app.wire import JSON
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
    "ui": (
        Permission(
            "cluster",
            _GROUP,
            (
                _CLAIMS,
                RESOURCE_CLAIM_TEMPLATES.plural,
                DEVICE_CLASSES.plural,
                RESOURCE_SLICES.plural,
                "devicetaintrules",
                "resourcepoolstatusrequests",
            ),
            READ,
        ),
    ),
}

_DATA = f"'status.devices[' + string({NEW_ENTRIES}.indexOf(d)) + '].networkData"
_OTHERS = {INTERFACE_NAME: "interfaceNames", HARDWARE_ADDRESS: "hardwareAddresses"}


def format_policy() -> JSON:
    """The spec. Only entries whose network data changes are looked at.

    An expression that fails refuses nothing, because a driver that cannot write its status stops.
    """
    texts = {_OTHERS[rule.field]: (rule.want, _bad_texts(rule)) for rule in TEXT_RULES}
    addresses = {rule.name: (rule.want, _bad_addresses(_in_ranges(rule), rule.want)) for rule in ADDRESS_RULES}
    prefixes = {"prefixes": (PREFIX_WANT, _bad_addresses(f"cidr(one).prefixLength() < {LEAST_PREFIX}", PREFIX_WANT))}
    rules = texts | addresses | prefixes
    return {
        "failurePolicy": "Ignore",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "resourceRules": [
                {
                    "operations": list(STATUS_REVIEW.operations),
                    "apiGroups": [STATUS_REVIEW.group],
                    "apiVersions": [STATUS_REVIEW.version],
                    "resources": list(STATUS_REVIEW.resources),
                    "scope": "Namespaced",
                }
            ],
        },
        "matchConditions": [{"name": "changes-network-data", "expression": CHANGES_NETWORK_DATA}],
        "variables": [
            {"name": "changed", "expression": CHANGED_ENTRIES},
            *({"name": name, "expression": expression} for name, (_, expression) in rules.items()),
        ],
        "validations": [_validation(name, want) for name, (want, _) in rules.items()],
    }


def _validation(name: str, want: str) -> JSON:
    """`variables.NAME` is a text with every problem, "" without any."""
    text = f"variables.{name}"
    return {
        "expression": f"{text} == ''",
        "message": f"status.devices: networkData: want {want}",
        "messageExpression": f"size({text}) > {MESSAGE} ? {text}.substring(0, {MESSAGE}) : {text}",
        "reason": "Invalid",
    }


def _bad_texts(rule: TextRule) -> str:
    text = f"d.networkData.{rule.field}"
    fits = f"size(bytes({text})) <= {rule.most_bytes} && {text}.matches({_literal(rule.pattern)})"
    bad = f"has({text}) && {text} != '' && !({fits})"
    return f"variables.changed.filter(d, {bad}).map(d, {_DATA}.{rule.field}{_got(rule.want, text)}).join('; ')"


def _bad_addresses(bad: str, want: str) -> str:
    """`bad` says it of the text `one`, which is in CIDR form."""
    index = f"{_DATA}.{IPS}[' + string(d.networkData.{IPS}.indexOf(one)) + ']"
    addresses = f"d.networkData.{IPS}.filter(one, isCIDR(one) && {bad}).map(one, {index}{_got(want, 'one')}).join('; ')"
    return (
        f"variables.changed.filter(d, has(d.networkData.{IPS})).map(d, {addresses}).filter(text, text != '').join('; ')"
    )


def _in_ranges(rule: AddressRule) -> str:
    return "(" + " || ".join(f"cidr('{network}').containsIP(cidr(one).ip())" for network in rule.ranges) + ")"


def _got(want: str, value: str) -> str:
    """The end of a literal that `problem` of the rules has too, and the value.

    An API server drops warnings with control characters, and messages with line breaks.
    """
    shown = rf"({value}.matches('\\p{{Cc}}') ? 'control characters' : '\'' + {value} + '\'')"
    return f": want {_escaped(want)}, got ' + {shown}"


def _literal(text: str) -> str:
    return f"'{_escaped(text)}'"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
