"""What a Pod asks of each resource, as the scheduler and quota count it, and its quality of service. Pure.

Sources: KEP-753 (sidecars), KEP-2837 (resources of the whole Pod); `k8s.io/component-helpers/resource`,
`pkg/apis/core/v1/helper/qos` and `DefaultPodLevelResources` of Kubernetes 1.37. All of it is as an API server stores
the Pod: requests that are missing are filled in from the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import NamedTuple

from app.kube import quantity
from app.kube.quantity import parse, written
from app.wire import JSON

Amounts = dict[str, Decimal]
_COMPUTE = frozenset({"cpu", "memory"})
_HUGE = "hugepages-"


class PodLevel(NamedTuple):
    """The resources of a whole Pod, `spec.resources`, with what an API server fills in there."""

    requests: Amounts
    limits: Amounts


def pod_requests(pod: JSON) -> Amounts:
    """What a Pod needs of each resource: its containers together, or its largest init step where that is more.

    Of cpu, memory and huge pages that the Pod has as a whole, that counts.
    """
    spec: JSON = pod.get("spec") or {}
    level = pod_level(spec)
    total = {**together(spec, _container_requests), **_supported(level.requests if level else {})}
    return added(total, amounts_of(spec.get("overhead")))


def pod_limits(pod: JSON) -> Amounts:
    """The limits of a Pod, of the resources that have one; summed as requests are."""
    spec: JSON = pod.get("spec") or {}
    level = pod_level(spec)
    total = {**together(spec, container_limits), **_supported(level.limits if level else {})}
    overhead = amounts_of(spec.get("overhead"))
    return added(total, {name: overhead[name] for name in overhead.keys() & total.keys() if total[name]})


def pod_level(spec: JSON) -> PodLevel | None:
    """The resources of the Pod as a whole; None where it has none. Raises QuantityError.

    A request that is missing is what the containers request of cpu and memory, else the limit; a limit that is missing
    is that of the containers where each has one, and of huge pages where any has.
    """
    resources: JSON = spec.get("resources") or {}
    requests, limits = amounts_of(resources.get("requests")), amounts_of(resources.get("limits"))
    if not (requests or limits):
        return None
    of_containers = together(spec, container_limits)
    for name, amount in of_containers.items():
        if name.startswith(_HUGE) and name not in requests:
            limits.setdefault(name, amount)
    container_requests = together(spec, _container_requests)
    requests = (
        {name: container_requests[name] for name in _COMPUTE & container_requests.keys()}
        | _supported(limits, but=container_requests)
        | requests
    )
    containers = [container_limits(container) for container in _containers(spec)]
    for name in _supported(requests).keys() - limits.keys():
        if all(name in container for container in containers):
            limits[name] = max(requests[name], of_containers[name])
    return PodLevel(requests, limits)


def fill_pod_level(spec: JSON) -> None:
    """Fill in the resources of the Pod as a whole, as an API server does after admission. Raises QuantityError."""
    level, forms = pod_level(spec), forms_of(spec)
    for side, amounts in (("requests", level.requests), ("limits", level.limits)) if level else ():
        if amounts:
            stated: JSON = spec["resources"].get(side) or {}
            filled = {name: written(amount, like=forms.get(name, "0")) for name, amount in amounts.items()}
            spec["resources"][side] = filled | stated


def forms_of(spec: JSON) -> dict[str, str]:
    """A text of each resource: sums are written as the first that is not zero."""
    forms: dict[str, str] = {}
    for part in [*(spec.get("containers") or []), *(spec.get("initContainers") or []), spec]:
        resources = part.get("resources") or {}
        for kind in ("requests", "limits"):
            for name, text in (resources.get(kind) or {}).items():
                if parse(text):
                    forms.setdefault(name, text)
    return forms


def _supported(amounts: Amounts, *, but: Iterable[str] = ()) -> Amounts:
    """Those of the resources that a Pod can have as a whole, without those of cpu and memory in `but`."""
    left = _COMPUTE.difference(but)
    return {name: amount for name, amount in amounts.items() if name in left or name.startswith(_HUGE)}


def _containers(spec: JSON) -> list[JSON]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def together(spec: JSON, of: Callable[[JSON], Amounts]) -> Amounts:
    """What the containers of a Pod come to, or its largest init step where that is more; `of` one container."""
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
    """`Guaranteed`, `Burstable` or `BestEffort`, by cpu and memory of the Pod or its containers. Raises QuantityError.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
    """
    level = pod_level(spec)
    if level and (_supported(level.requests) or _supported(level.limits)):
        return _quality(level.requests, level.limits)
    qualities = set(map(container_quality, _containers(spec)))
    return "Burstable" if len(qualities) > 1 else next(iter(qualities), "BestEffort")


def container_quality(container: JSON) -> str:
    """The quality of service of a Pod that had this container alone. Raises QuantityError."""
    return _quality(_container_requests(container), container_limits(container))


def _quality(requests: Amounts, limits: Amounts) -> str:
    amounts = [(requests.get(name, Decimal(0)), limits.get(name, Decimal(0))) for name in _COMPUTE]
    if any(request != limit for request, limit in amounts):
        return "Burstable"
    given = {limit > 0 for _, limit in amounts}
    return "Burstable" if len(given) > 1 else "Guaranteed" if given == {True} else "BestEffort"


def filled_requests(resources: JSON) -> JSON:
    """The requests with the limits for those that are missing, as an API server fills them in for a Pod."""
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _container_requests(container: JSON) -> Amounts:
    resources: JSON = container.get("resources") or {}
    return {**amounts_of(resources.get("limits")), **amounts_of(resources.get("requests"))}


def stated_requests(container: JSON) -> Amounts:
    """The requests of a container without those that are filled in. Raises QuantityError."""
    return amounts_of((container.get("resources") or {}).get("requests"))


def container_limits(container: JSON) -> Amounts:
    """The limits of a container. Raises QuantityError."""
    return amounts_of((container.get("resources") or {}).get("limits"))


def amounts_of(quantities: JSON | None) -> Amounts:
    """Quantities by resource. Raises QuantityError."""
    return {name: parse(text) for name, text in (quantities or {}).items()}


def added(left: Amounts, right: Amounts) -> Amounts:
    """Both together."""
    return {name: quantity.added(left.get(name, Decimal(0)), right.get(name, Decimal(0))) for name in {**left, **right}}


def _largest(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, Decimal(0)), right.get(name, Decimal(0))) for name in {**left, **right}}
