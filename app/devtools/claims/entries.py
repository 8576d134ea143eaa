"""Entries of `status.devices` as drivers write them. Pure but for the time of conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from typing import Any

from app.devtools.sandbox.standins.devices.allocation import is_named
from app.text import stamp
from app.wire import JSON

_NETWORK = ip_network("198.18.0.0/15")
"""For tests of networks, by RFC 2544."""
_KEYS = ("driver", "pool", "device")


def data_entries(claim: JSON, results: Sequence[JSON]) -> list[JSON]:
    """With the parameters of each device as `data`."""
    return [{**_key(one), "data": _parameters(claim, one) or {"kind": "VfConfig"}} for one in results]


def network_entries(claim: JSON, results: Sequence[JSON], *, first: int) -> list[JSON]:
    """With network data; addresses are counted from `first`. The interface is named by the parameters, or as here."""
    return [_attached(claim, one, first + index) for index, one in enumerate(results)]


def _attached(claim: JSON, result: JSON, number: int) -> JSON:
    interface: Any = _parameters(claim, result).get("interface") or {}
    prefix = _NETWORK.prefixlen
    return {
        **_key(result),
        "conditions": [
            {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": stamp()}
            for kind, reason in (("Ready", "NetworkDeviceReady"), ("NetworkReady", "NetworkReady"))
        ],
        "networkData": {
            "interfaceName": interface.get("name") or f"dra{number}",
            "ips": interface.get("addresses") or [f"{_NETWORK[number]}/{prefix}"],
            "hardwareAddress": f"02:00:00:00:{number >> 8 & 255:02x}:{number & 255:02x}",
        },
    }


def _key(result: JSON) -> JSON:
    return {name: result[name] for name in (*_KEYS, "shareID") if result.get(name)}


def _parameters(claim: JSON, result: JSON) -> JSON:
    """The first opaque parameters for the device."""
    return next(_configs(claim, result), {})


def _configs(claim: JSON, result: JSON) -> Iterator[JSON]:
    for one in reversed(claim["status"]["allocation"]["devices"].get("config") or ()):
        opaque = one.get("opaque") or {}
        meant = not one.get("requests") or is_named(result["request"], one["requests"])
        if meant and opaque.get("driver") == result["driver"]:
            yield opaque.get("parameters") or {}
