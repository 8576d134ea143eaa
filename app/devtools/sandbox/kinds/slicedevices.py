"""Validation of the devices in ResourceSlices, in the API server's words: attributes, taints, counters. Pure.

The rules are those of resource.k8s.io/v1 with the gates of Kubernetes 1.36.
"""

from __future__ import annotations

import re

from app.devtools.sandbox.kinds.claims import TAINT_EFFECTS
from app.devtools.sandbox.kinds.devicecapacity import check_policy
from app.devtools.sandbox.kinds.devicelists import check_unique
from app.devtools.sandbox.kinds.devicenames import bounded, check_attribute, check_binding, too_long
from app.kinds.fielderrors import Field
from app.kinds.name_syntax import declared_label_faults, label_faults, label_value_faults, qualified_faults

_MOST_ATTRIBUTES = 32
_MOST_TAINTS = 16
_MOST_CONSUMED = 2
_MOST_COUNTERS = 32
_MOST_OF_VALUE = 64
_MOST_OF_KEY = 63 + 1 + 32
_VALUES = ("int", "bool", "string", "version")
_ONE_OF_TEXT = "one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
_NUMBER = r"(0|[1-9]\d*)"
_WORD = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_WORD}(\.{_WORD})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
)


def check_device(device: Field) -> None:
    """One device, apart from the nodes that have it."""
    device.syntax("name", label_faults)
    attributes, capacity = device.value.get("attributes") or {}, device.value.get("capacity") or {}
    if (count := len(attributes) + len(capacity)) > _MOST_ATTRIBUTES:
        text = f"the total number of attributes and capacities must not exceed {_MOST_ATTRIBUTES}"
        device.fault("", "Invalid", text, count)
    for key in attributes:
        _check_key(device, "attributes", key)
        _check_value(_entry(device, "attributes", key))
    for key in capacity:
        _check_key(device, "capacity", key)
        check_policy(_entry(device, "capacity", key), shared=bool(device.value.get("allowMultipleAllocations")))
    if bounded(device, "taints", _MOST_TAINTS, declared=False):
        for taint in device.each("taints"):
            _check_taint(taint)
    if bounded(device, "consumesCounters", _MOST_CONSUMED):
        check_counter_sets(device, "consumesCounters", "counterSet")
    check_binding(device)


def check_counter_sets(holder: Field, name: str, key: str) -> None:
    """A list of sets of counters, each of which has another name in the field `key`."""
    check_unique(holder, name, key)
    for counters in holder.each(name):
        with counters.declared():
            counters.named(key, declared_label_faults)
        _check_counters(counters)


def _check_counters(holder: Field) -> None:
    """The map `counters`: there is one at least."""
    with holder.declared():
        there = holder.required("counters")
    if there and bounded(holder, "counters", _MOST_COUNTERS, declared=False):
        with holder.declared():
            for key in holder.value["counters"]:
                for text in declared_label_faults(key):
                    holder.fault("counters", "Invalid", text, key)


def _check_key(device: Field, name: str, key: str) -> None:
    check_attribute(Field({name: key}, device.path, device.errors), name)


def _entry(device: Field, name: str, key: str) -> Field:
    """A value of a map; the key of its path is shortened in the middle where it is too long."""
    shown = key
    if len(key) > _MOST_OF_KEY:
        kept = _MOST_OF_KEY - len("...")
        shown = f"{key[: (kept + 1) // 2]}...{key[len(key) - kept // 2 :]}"
    return Field(device.value[name][key] or {}, f"{device.at(name)}[{shown}]", device.errors)


def _check_value(attribute: Field) -> None:
    """The value of an attribute: of exactly one type."""
    given = [name for name in _VALUES if name in attribute.value]
    too_long(attribute, "string", _MOST_OF_VALUE)
    if "version" in given:
        if not _VERSION.fullmatch(attribute.text("version")):
            attribute.fault("version", "Invalid", "must be a string compatible with semver.org spec 2.0.0")
        too_long(attribute, "version", _MOST_OF_VALUE)
    with attribute.declared():
        if not given:
            attribute.fault("", "Invalid", f"must specify {_ONE_OF_TEXT}", "")
        elif len(given) > 1:
            attribute.fault("", "Invalid", f"must specify exactly {_ONE_OF_TEXT}", f"{{{', '.join(given)}}}")


def _check_taint(taint: Field) -> None:
    taint.syntax("key", qualified_faults)
    taint.syntax("value", label_value_faults, optional=True)
    with taint.declared():
        if taint.required("effect"):
            taint.one_of("effect", TAINT_EFFECTS)
