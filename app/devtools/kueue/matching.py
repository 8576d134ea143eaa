"""Whether Pods may run on the nodes of a ResourceFlavor. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from app.devtools.sandbox.standins.placement import is_tolerated, matches_node
from app.wire import JSON


def mismatch(name: str, spec: JSON, flavor: JSON) -> str:
    """Why Pods may not run on nodes of this flavor, "" where they may."""
    tolerations = [*(spec.get("tolerations") or []), *(flavor.get("tolerations") or [])]
    for taint in flavor.get("nodeTaints") or []:
        if taint["effect"] != "PreferNoSchedule" and not is_tolerated(taint, tolerations):
            return f"untolerated taint {taint['key']} in flavor {name}"
    labels: dict[str, str] = flavor.get("nodeLabels") or {}
    if not matches_node(_about(spec, labels), {"metadata": {"labels": labels}}):
        return f"flavor {name} doesn't match node affinity"
    return ""


def _about(spec: JSON, labels: Mapping[str, str]) -> JSON:
    """What a Pod's spec asks of nodes by these labels: other labels say nothing of a flavor."""
    selector = {key: value for key, value in (spec.get("nodeSelector") or {}).items() if key in labels}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: list[JSON] = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms"
    ) or []
    kept = [[one for one in term.get("matchExpressions") or [] if one["key"] in labels] for term in terms]
    if not kept or not all(kept):  # one of the terms asks nothing of this flavor
        return {"nodeSelector": selector}
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in kept]}
    return {
        "nodeSelector": selector,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    }
