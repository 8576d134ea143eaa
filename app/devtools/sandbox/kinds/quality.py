"""The quality-of-service class of a Pod, computed from its containers' cpu and memory as the API server does. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kube.quantity import parse

if TYPE_CHECKING:
    from app.wire import JSON

_COMPUTE = ("cpu", "memory")


def quality_of_service(spec: JSON) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`."""
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    guaranteed, asked = True, False
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = _positive(resources.get("limits")), _positive(resources.get("requests"))
        asked = asked or bool(limits) or bool(requests)
        guaranteed = guaranteed and set(limits) == set(_COMPUTE) and requests == limits
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(quantities: JSON | None) -> JSON:
    amounts = {name: parse(value) for name, value in (quantities or {}).items() if name in _COMPUTE}
    return {name: value for name, value in amounts.items() if value > 0}
