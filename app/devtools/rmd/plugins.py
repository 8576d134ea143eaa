"""The loadable modules of the daemon. Their sources are no part of it: checks and texts here are the stand-in's."""

from __future__ import annotations

from app.wire import JSON

_SWITCHES = ("on", "off")


def fault_of(name: str, parameters: JSON) -> str:
    """What is wrong with the parameters of a plugin; "" for nothing. Plugins but pstate take everything."""
    if name != "pstate":
        return ""
    if not parameters:
        return "no parameters"
    ratio, monitoring = parameters.get("ratio"), parameters.get("monitoring")
    if ratio is not None and (isinstance(ratio, bool) or not isinstance(ratio, int | float) or ratio <= 0):
        return "ratio is not a number above 0"
    if monitoring is not None and monitoring not in _SWITCHES:
        return "monitoring is neither on nor off"
    return ""
