"""What the scheduler writes into the status of a claim. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.devtools.sandbox.standins.devices.allocation import Chosen, is_named
from app.wire import JSON


def allocation_of(spec: JSON, chosen: Sequence[Chosen], classes: Mapping[str, JSON], node: str) -> JSON:
    """The allocation: devices, parameters (of classes first), and the nodes that have them all."""
    devices: JSON = {"results": [_result(one) for one in chosen]}
    config = [*_of_classes(chosen, classes), *_of_claim(spec, chosen)]
    if config:
        devices["config"] = config
    selector = _nodes(chosen, node)
    return {"devices": devices} | ({"nodeSelector": selector} if selector else {})


def consumer(pod: JSON) -> JSON:
    """The Pod as `reservedFor` has it."""
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def _result(one: Chosen) -> JSON:
    driver, pool, device, _ = one.device.key
    result: JSON = {"request": one.request, "driver": driver, "pool": pool, "device": device}
    if one.admin_access:
        result["adminAccess"] = True
    if one.asked.get("tolerations"):
        result["tolerations"] = one.asked["tolerations"]
    return result


def _of_classes(chosen: Sequence[Chosen], classes: Mapping[str, JSON]) -> list[JSON]:
    requests: dict[str, dict[str, None]] = {}
    for one in chosen:
        requests.setdefault(one.asked["deviceClassName"], {})[one.request] = None
    return [
        {"source": "FromClass", "requests": list(names), **config}
        for name, names in requests.items()
        for config in (classes[name].get("spec") or {}).get("config") or ()
    ]


def _of_claim(spec: JSON, chosen: Sequence[Chosen]) -> list[JSON]:
    configs = (spec.get("devices") or {}).get("config") or ()
    return [
        {"source": "FromClaim", **config}
        for config in configs
        if not config.get("requests") or any(is_named(one.request, config["requests"]) for one in chosen)
    ]


def _nodes(chosen: Sequence[Chosen], node: str) -> JSON | None:
    """One term, since devices must be usable together. None where every node has them."""
    if any(one.device.local for one in chosen):
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        return {"nodeSelectorTerms": [{"matchFields": [field]}]}
    term: dict[str, list[JSON]] = {}
    for one in chosen:
        for part in (one.device.selector or {}).get("nodeSelectorTerms") or ():
            for name in ("matchExpressions", "matchFields"):
                term.setdefault(name, []).extend(each for each in part.get(name) or () if each not in term[name])
    term = {name: each for name, each in term.items() if each}
    return {"nodeSelectorTerms": [term]} if term else None
