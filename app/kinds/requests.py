"""What a Pod asks of each resource, as the scheduler and quota count it. Pure.

Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from app.kube import quantity
from app.kube.quantity import parse
from app.wire import JSON

Amounts = dict[str, Decimal]
_COMPUTE = frozenset({"cpu", "memory"})


def pod_requests(pod: JSON) -> Amounts:
    """What a Pod needs of each resource: its containers together, or its largest init step where that is more."""
    spec: JSON = pod.get("spec") or {}
    total = {**_together(spec, _container_requests), **_container_requests(spec)}
    return added(total, amounts_of(spec.get("overhead")))


def pod_limits(pod: JSON) -> Amounts:
    """The limits of a Pod, of the resources that have one; summed as requests are."""
    spec: JSON = pod.get("spec") or {}
    total = {**_together(spec, _container_limits), **_container_limits(spec)}
    overhead = amounts_of(spec.get("overhead"))
    return added(total, {name: overhead[name] for name in overhead.keys() & total.keys()})


def _together(spec: JSON, of: Callable[[JSON], Amounts]) -> Amounts:
    total: Amounts = {}
    for container in spec.get("containers") or []:
        total = added(total, of(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            sidecars = added(sidecars, of(container))
            peak = _largest(peak, sidecars)
        else:
            peak = _largest(peak, added(sidecars, of(container)))
    return _largest(added(total, sidecars), peak)


def quality_of_service(spec: JSON) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`, by cpu and memory of the containers. Raises QuantityError.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
    """
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    guaranteed, asked = True, False
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = _compute(resources.get("limits")), _compute(resources.get("requests"))
        asked = asked or bool(limits) or bool(requests)
        # A limit without a request is one too: an API server fills it in.
        guaranteed = guaranteed and limits.keys() == _COMPUTE and {**limits, **requests} == limits
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(quantities: JSON | None) -> Amounts:
    """What is more than nothing of cpu and memory."""
    asked = {name: text for name, text in (quantities or {}).items() if name in _COMPUTE}
    return {name: amount for name, amount in amounts_of(asked).items() if amount > 0}


def _container_requests(container: JSON) -> Amounts:
    resources: JSON = container.get("resources") or {}
    return {**amounts_of(resources.get("limits")), **amounts_of(resources.get("requests"))}


def _container_limits(container: JSON) -> Amounts:
    return amounts_of((container.get("resources") or {}).get("limits"))


def amounts_of(quantities: JSON | None) -> Amounts:
    """Quantities by resource. Raises QuantityError."""
    return {name: parse(text) for name, text in (quantities or {}).items()}


def added(left: Amounts, right: Amounts) -> Amounts:
    """Both together."""
    return {name: quantity.added(left.get(name, Decimal(0)), right.get(name, Decimal(0))) for name in {**left, **right}}


def _largest(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, Decimal(0)), right.get(name, Decimal(0))) for name in {**left, **right}}
