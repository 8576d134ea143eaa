"""The spec of a ValidatingAdmissionPolicy that holds statuses of claims to the rules of `app.claims.format`. Pure.

It is generated into the chart and works without Berth. All functions in it are in the CEL of Kubernetes 1.31:
https://kubernetes.io/docs/reference/using-api/cel/
"""

from __future__ import annotations

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
from app.claims.model import CHANGED_ENTRIES, CHANGES_NETWORK_DATA, NEW_ENTRIES
from app.claims.permissions import STATUS_REVIEW
from app.text import MESSAGE
from app.wire import JSON

CONDITIONS = (("changes-network-data", CHANGES_NETWORK_DATA),)
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
        "matchConditions": [{"name": name, "expression": expression} for name, expression in CONDITIONS],
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
