"""Keeps Pods from nodes that health checks have labeled, as the Autopilot of AppWrapper v1.2 does. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.appwrappers.config import Autopilot
from app.appwrappers.controller.pods import uses
from app.wire import JSON

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def resources_to_leave(labels: Mapping[str, str], autopilot: Autopilot) -> frozenset[str]:
    """The resources that Pods must not use any more on a node with these labels."""
    return frozenset(
        resource
        for resource, taints in autopilot.resource_taints.items()
        for taint in taints
        if taint.effect == "NoExecute" and labels.get(taint.key) == taint.value
    )


def avoid_unhealthy_nodes(spec: JSON, autopilot: Autopilot) -> None:
    """Add node affinity to a Pod's spec, in place, for the resources that it asks for."""
    if not autopilot.inject_anti_affinities:
        return
    required: dict[str, list[str]] = {}
    preferred: dict[str, list[str]] = {}
    for resource in sorted(set(_asked(spec)) & autopilot.resource_taints.keys()):
        for taint in autopilot.resource_taints[resource]:
            values = (preferred if taint.effect == "PreferNoSchedule" else required).setdefault(taint.key, [])
            if taint.value not in values:
                values.append(taint.value)
    if not required and not preferred:
        return
    affinity = spec["affinity"] = spec.get("affinity") or {}
    nodes = affinity["nodeAffinity"] = affinity.get("nodeAffinity") or {}
    if required:
        selector = nodes[_REQUIRED] = nodes.get(_REQUIRED) or {}
        # A Pod fits a node that one of the terms selects, so that each needs the requirement.
        selector["nodeSelectorTerms"] = [
            term | {"matchExpressions": [*(term.get("matchExpressions") or ()), *_not_in(required)]}
            for term in selector.get("nodeSelectorTerms") or [{}]
        ]
    if preferred:
        term = {
            "weight": autopilot.prefer_no_schedule_weight,
            "preference": {"matchExpressions": _not_in(preferred)},
        }
        nodes[_PREFERRED] = [*(nodes.get(_PREFERRED) or ()), term]


def _not_in(values: Mapping[str, list[str]]) -> list[JSON]:
    return [{"key": key, "operator": "NotIn", "values": list(texts)} for key, texts in values.items()]


def _asked(spec: JSON) -> Iterator[str]:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for part in ("limits", "requests"):
            for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
                if uses(amount):
                    yield name
