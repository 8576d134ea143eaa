"""Entries of `status.devices`: what is applied to a claim, and what of it is ours to write. Pure.

An entry is applied with our fields alone, where any of them differ; what others have written is left to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.claims.model import FIELD_MANAGER, PUBLISHED, DeviceKey
from app.claims.publishing.model import NetworkData
from app.claims.stored import Claim, Entry
from app.kube.conditions import condition, set_condition
from app.kube.resources import RESOURCE_CLAIMS
from app.text import abridged
from app.wire import JSON

MOST_CONDITIONS = 8
"""On an entry, of all writers together, by the validation of resource.k8s.io/v1."""
_NAMED = 3
"""Addresses that a message names."""
Conflict = Literal["defer", "force"]
State = Literal["published", "deferred", "self-publishing", "unlisted"]
"""published: the data are ours to write; deferred: another manager owns them; self-publishing: its driver writes them
itself; unlisted: its driver is not on the list.
"""
STATES: tuple[State, ...] = ("published", "deferred", "self-publishing", "unlisted")


@dataclass(frozen=True, slots=True)
class Write:
    """A server-side apply of the status; what it leaves out of what we had applied is released.

    `drivers` are those whose entries change. With `force`, fields of other managers are taken over; `body` then has the
    version of the claim in which they were seen.
    """

    body: JSON
    force: bool
    drivers: frozenset[str]


def write_of(
    claim: Claim, data: Mapping[DeviceKey, NetworkData], kept: frozenset[DeviceKey] = frozenset(), *, now: datetime
) -> Write | None:
    """The write after which our fields of the claim are exactly these; None where they are already.

    Of devices that are `kept`, and not in `data`, our fields stay what they are.
    """
    changed = {
        device for device, network_data in data.items() if not _is_written(claim.entries.get(device), network_data)
    }
    ours = {device for device, entry in claim.entries.items() if "." in entry.owned and device not in data}
    changed |= ours - kept
    if not changed:
        return None
    force = any(_others(claim.entries.get(device)) for device in data)
    namespace, name = claim.key
    metadata = {"name": name, "namespace": namespace, "uid": claim.uid}
    if force:
        metadata["resourceVersion"] = claim.version
    entries = [_entry(device, claim.entries.get(device), network_data, now) for device, network_data in data.items()]
    entries += [_as_it_is(device, claim.entries[device]) for device in sorted(ours & kept)]
    body = RESOURCE_CLAIMS.body(metadata, **({"status": {"devices": entries}} if entries else {}))
    return Write(body, force, frozenset(device.driver for device in changed))


def reason_of(data: NetworkData) -> str:
    if data.withheld:
        return withheld_reason(data)
    return "PrefixUnknown" if data.unknown_prefixes else "Published"


def withheld_reason(data: NetworkData) -> str:
    """Why addresses are not published, as the Events of Services say it."""
    return "AddressesOutsideNetwork" if data.confined else "SubnetsUnknown"


def withheld_message(data: NetworkData) -> str:
    """Which addresses are not published, and what would be right."""
    named = ", ".join(data.withheld[:_NAMED]) + (
        f" and {more} more" if (more := len(data.withheld) - _NAMED) > 0 else ""
    )
    if data.confined:
        text = f"not published: {named}, outside the subnets of network {data.network} or in an excluded range"
        return f"{text}; correct the IPAM of the attachment, or who writes the network status"
    text = f"not published: {named}: no subnets are known of network {data.network}"
    fix = "give the attachment an IPAM of host-local, whereabouts or static with subnets"
    return (
        f"{text}; {fix}, or an administrator names it in --unconfined-networks (claims.unconfinedNetworks of the chart)"
    )


def message_of(data: NetworkData) -> str:
    """It names the addresses, so that it changes with them.

    A manager that puts back an older entry then owns the message too, by which it is recognized.
    """
    text = f"{', '.join(data.ips) or 'no address'} on {data.interface or 'no interface'} of network {data.network}"
    if data.unknown_prefixes:
        text += f"; nothing says the prefix of {', '.join(data.unknown_prefixes)}"
    if data.withheld:
        text += f"; {withheld_message(data)}"
    return abridged(f"{text}; {data.dropped} more addresses do not fit" if data.dropped else text)


@dataclass(frozen=True, slots=True)
class Rules:
    """`drivers` are the only ones that data are written for; empty: all.

    `self_publishing` are drivers that write for themselves. `repair_after` are the seconds after which that counts as
    failed where nothing is written; 0: never.
    """

    drivers: frozenset[str] = frozenset()
    conflict: Conflict = "defer"
    self_publishing: frozenset[str] = frozenset({"dra.net"})
    repair_after: float = 0.0

    def lists(self, driver: str) -> bool:
        """Whether data are written for the driver.

        What was written before it left the list stays: the right to change it may have gone at the same time.
        """
        return not self.drivers or driver in self.drivers


def others_of(entry: Entry | None) -> frozenset[str]:
    """The other field managers that own network data of the entry.

    A manager that owns our condition as well has put back a list that it had read before: the data in it are ours. No
    driver writes this condition of its own accord.
    """
    return frozenset() if entry is None else entry.managers - entry.tellers - {FIELD_MANAGER}


def state_of(device: DeviceKey, entry: Entry | None, rules: Rules, *, overdue: bool) -> State:
    """`overdue`: its driver has had `repair_after` seconds to publish for itself. `entry` is None if there is none."""
    if not rules.lists(device.driver):
        return "unlisted"
    taken = others_of(entry)
    if device.driver in rules.self_publishing:
        return "self-publishing" if taken or not _repairs(entry, rules, overdue=overdue) else "published"
    return "deferred" if taken and rules.conflict == "defer" else "published"


def _is_written(entry: Entry | None, data: NetworkData) -> bool:
    """Whether our manager owns these values, and no others of the entry."""
    if entry is None or "." not in entry.owned:
        return False
    members = data.body()
    network_data = entry.network_data or {}
    if entry.owned - {".", PUBLISHED} != members.keys() or any(
        network_data.get(key) != members[key] for key in members
    ):
        return False
    if not _has_room(entry):
        return PUBLISHED not in entry.owned
    published = condition({"conditions": entry.conditions}, PUBLISHED)
    expected = ("True", reason_of(data), message_of(data))
    return PUBLISHED in entry.owned and tuple(published.get(key) for key in ("status", "reason", "message")) == expected


def _has_room(entry: Entry | None) -> bool:
    """Whether the entry has our condition, or has room for it."""
    conditions = entry.conditions if entry is not None else ()
    return len(conditions) < MOST_CONDITIONS or any(item.get("type") == PUBLISHED for item in conditions)


def _others(entry: Entry | None) -> frozenset[str]:
    return frozenset() if entry is None else (entry.managers | entry.tellers) - {FIELD_MANAGER}


def _keys(device: DeviceKey) -> JSON:
    keys: JSON = {"driver": device.driver, "pool": device.pool, "device": device.device}
    return keys | ({"shareID": device.share} if device.share else {})


def _entry(device: DeviceKey, entry: Entry | None, data: NetworkData, now: datetime) -> JSON:
    body = _keys(device) | {"networkData": data.body()}
    if _has_room(entry):
        holder: JSON = {"conditions": entry.conditions if entry is not None else ()}
        set_condition(holder, PUBLISHED, "True", reason_of(data), message_of(data), now=now)
        body["conditions"] = [condition(holder, PUBLISHED)]
    return body


def _as_it_is(device: DeviceKey, entry: Entry) -> JSON:
    """What our manager owns of an entry."""
    body = _keys(device)
    if members := {key: value for key, value in (entry.network_data or {}).items() if key in entry.owned}:
        body["networkData"] = members
    if PUBLISHED in entry.owned:
        body["conditions"] = [item for item in entry.conditions if item.get("type") == PUBLISHED]
    return body


def _repairs(entry: Entry | None, rules: Rules, *, overdue: bool) -> bool:
    """Also where the data are ours: they were repaired before, and a new sandbox of the Pod may have changed them."""
    if not rules.repair_after:
        return False
    return overdue or (entry is not None and FIELD_MANAGER in entry.managers)
