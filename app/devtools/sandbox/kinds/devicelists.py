"""Lists of resource.k8s.io whose entries have a key, in the API server's words. Pure.

It prints a whole entry that has the key of an earlier one: the fields in the order of its types, maps by their keys.
"""

from __future__ import annotations

from typing import Any

from app.kinds.fielderrors import Field, FieldError
from app.wire import JSON

_ORDER = (
    "apiGroup", "resource", "name", "uid",
    "exactly", "firstAvailable", "deviceClassName", "selectors", "allocationMode", "count", "adminAccess",
    "tolerations", "capacity",
    "key", "operator", "value", "effect", "tolerationSeconds",
    "driver", "pool", "device", "shareID", "conditions", "data", "networkData",
    "type", "status", "observedGeneration", "lastTransitionTime", "reason", "message",
    "interfaceName", "ips", "hardwareAddress",
    "counterSet", "counters",
)  # fmt: skip
"""The fields of the types that such entries are made of; each type has its fields in this order."""
_PLACES = {name: index for index, name in enumerate(_ORDER)}
_MAPS = frozenset({"counters", "data", "requests"})
"""Fields with names of their author's in them; `requests` are those of capacity."""


def check_unique(holder: Field, name: str, *keys: str) -> None:
    """Report the entries of a list whose keys are those of an earlier one."""
    seen: set[tuple[str, ...]] = set()
    for here, entry in holder.entries(name):
        key = tuple(entry.get(part) or "" for part in keys)
        if key in seen:
            holder.errors.append(FieldError(holder.at(here), "Duplicate", "", _printed(entry), declared=True))
        seen.add(key)


def _printed(value: Any) -> Any:
    if isinstance(value, list):
        return [_printed(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    names = sorted(value, key=lambda name: _PLACES.get(name, len(_PLACES)))
    return {name: _sorted(value[name]) if name in _MAPS else _printed(value[name]) for name in names}


def _sorted(values: JSON) -> JSON:
    return {name: values[name] for name in sorted(values)} if isinstance(values, dict) else values
