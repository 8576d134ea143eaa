"""Who owns the network data of devices, and our condition on them, by managedFields. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from app.claims.model import FIELD_MANAGER, PUBLISHED, DeviceKey, device_key
from app.wire import JSON, decode_json


class Owners(NamedTuple):
    """Managers of network data; those of our condition; what of the entry is ours, "." for the entry itself."""

    managers: set[str]
    tellers: set[str]
    ours: set[str]


NO_OWNERS = Owners(set(), set(), set())
_OUR_CONDITION = f'k:{{"type":"{PUBLISHED}"}}'


def owners_in(metadata: JSON) -> dict[DeviceKey, Owners]:
    """Who owns network data, and our condition, by device."""
    found: dict[DeviceKey, Owners] = {}
    for one in metadata.get("managedFields") or ():
        fields: Any = one.get("fieldsV1") or {}
        for name in ("f:status", "f:devices"):
            fields = fields.get(name) or {}
        manager = one.get("manager", "")
        for key, below in fields.items():
            if key.startswith("k:"):
                device = device_key(decode_json(key[2:]))
                owners = found.setdefault(device, Owners(set(), set(), set()))
                _add(owners, manager, below)
    return found


def _add(owners: Owners, manager: str, fields: JSON) -> None:
    data = fields.get("f:networkData")
    published = _OUR_CONDITION in (fields.get("f:conditions") or ())
    if data is not None:
        owners.managers.add(manager)
    if published:
        owners.tellers.add(manager)
    if manager == FIELD_MANAGER:
        owners.ours.update(
            (".", *(name.removeprefix("f:") for name in data or ()), *((PUBLISHED,) if published else ()))
        )
