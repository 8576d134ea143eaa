"""The entries of `status.devices` whose network data an update changes: in Python, and in CEL for the API server. Pure.

What was written before is not looked at again: an old odd entry must not keep others from writing theirs.
"""

from __future__ import annotations

from app.claims.model import device_key
from app.wire import JSON


def changed_entries(obj: JSON, old: JSON) -> list[tuple[int, JSON]]:
    """(index, entry) of those with other network data than the entry with the same keys had before, in their order.

    Raises TypeError, ValueError, AttributeError or KeyError for objects of other shapes.
    """
    before = {device_key(entry): entry.get("networkData") for entry in entries_of(old)}
    return [
        (index, entry)
        for index, entry in enumerate(entries_of(obj))
        if entry.get("networkData") and entry["networkData"] != before.get(device_key(entry))
    ]


def entries_of(obj: JSON) -> list[JSON]:
    return (obj.get("status") or {}).get("devices") or []


def _entries(name: str) -> str:
    return f"(has({name}.status) && has({name}.status.devices) ? {name}.status.devices : [])"


def _share(name: str) -> str:
    return f"(has({name}.shareID) ? {name}.shareID : '')"


_SAME_KEYS = f"o.driver == d.driver && o.pool == d.pool && o.device == d.device && {_share('o')} == {_share('d')}"
_IS_CHANGED = (
    f"has(d.networkData) && !{_entries('oldObject')}"
    f".exists(o, {_SAME_KEYS} && has(o.networkData) && o.networkData == d.networkData)"
)
NEW_ENTRIES = "object.status.devices"
CHANGED_ENTRIES = f"{_entries('object')}.filter(d, {_IS_CHANGED})"
"""The list of changed entries."""
CHANGES_NETWORK_DATA = f"{_entries('object')}.exists(d, {_IS_CHANGED})"
