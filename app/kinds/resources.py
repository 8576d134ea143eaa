"""Validation of the resources of containers and of a whole Pod, in the API server's words. Pure.

Source: `validateResourceRequirements` and `validatePodResources` of Kubernetes 1.37. What they sum up to is in
`requests`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import ceil

from app.kinds.fielderrors import MOST_FAULTS, Field, invalid, supported
from app.kinds.name_syntax import qualified_faults
from app.kinds.requests import Amounts, amounts_of, container_limits, stated_requests, together
from app.kinds.resource_claims import check_container_claims, claim_names
from app.kube.quantity import QuantityError, parse, written
from app.wire import JSON

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_PODS = ("cpu", "hugepages-", "memory")
_HUGEPAGES = "hugepages-"
_STANDARD = _NATIVE | {f"{side}.{name}" for side in ("requests", "limits") for name in _NATIVE} | {
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
    "storage", "requests.storage", "services.nodeports", "services.loadbalancers",
}  # fmt: skip
_UNKNOWN_TEXT = "must be a standard resource type or fully qualified"


def check_container_resources(resources: Field) -> None:
    """Requests and limits of one container."""
    _check_amounts(resources, check_container_name)


def check_overhead(pod: Field) -> None:
    """What the Pod needs beside its containers; the server calls these amounts limits."""
    _check_limits(pod.below("overhead"), pod.value.get("overhead") or {}, check_container_name)


def check_pod_resources(pod: Field) -> None:
    """Requests and limits of the Pod as a whole: its containers together have no more."""
    if "resources" not in pod.value:
        return
    if (pod.value.get("os") or {}).get("name") == "windows":
        pod.fault("resources", "Forbidden", "may not be set for a windows pod")
        return
    resources = pod.below("resources")
    if "claims" in resources.value:
        resources.fault("claims", "Forbidden", "claims may not be set for Resources at pod-level")
    _check_amounts(resources, _check_pod_name)
    check_container_claims(resources, claim_names(pod.value))
    _check_containers(pod, resources)


def _check_containers(pod: Field, resources: Field) -> None:
    requests, limits = (amounts_of(resources.value.get(side)) for side in ("requests", "limits"))
    text = "must be greater than or equal to aggregate container"
    for name, amount in _beyond(requests, together(pod.value, stated_requests)):
        resources.fault(
            f"requests[{name}]", "Invalid", f"{text} requests of {amount}", resources.value["requests"][name]
        )
    for name, amount in _beyond(limits, together(pod.value, container_limits)):
        if name.startswith(_HUGEPAGES):
            resources.fault(f"limits[{name}]", "Invalid", f"{text} limits of {amount}", resources.value["limits"][name])
    for here, container in pod.entries("containers"):
        for name, amount in _beyond(limits, container_limits(container)):
            of_pod = resources.value["limits"][name]
            resources.fault(
                f"{here}[{name}].limits", "Invalid", f"must be less than or equal to pod limits of {of_pod}", amount
            )


def _beyond(bounds: Amounts, amounts: Amounts) -> list[tuple[str, str]]:
    """The amounts that are larger than those of the Pod, written out."""
    return [(name, written(amount, like="1")) for name, amount in amounts.items() if amount > bounds.get(name, amount)]


def _check_amounts(resources: Field, check_name: Callable[[Field, str, str], None]) -> None:
    limits, requests = resources.value.get("limits") or {}, resources.value.get("requests") or {}
    _check_limits(resources, limits, check_name)
    for name, value in requests.items():
        if len(resources.errors) >= MOST_FAULTS:
            return
        _check_amount(resources, f"requests[{name}]", name, value, check_name)
        _check_against_limit(resources, name, value, limits.get(name))
    names = {*limits, *requests}
    if any(name.startswith(_HUGEPAGES) for name in names) and not names & {"cpu", "memory"}:
        resources.fault("", "Forbidden", "HugePages require cpu or memory")


def _check_limits(holder: Field, limits: JSON, check_name: Callable[[Field, str, str], None]) -> None:
    for name, value in limits.items():
        if len(holder.errors) >= MOST_FAULTS:
            return
        _check_amount(holder, f"limits[{name}]", name, value, check_name)


def _check_amount(
    holder: Field, here: str, name: str, value: str, check_name: Callable[[Field, str, str], None]
) -> None:
    check_name(holder, here, name)
    amount = parse(value)
    if amount < 0:
        holder.fault(here, "Invalid", "must be greater than or equal to 0", value)
    if _is_foreign(name) and amount != amount.to_integral_value():
        holder.fault(here, "Invalid", "must be an integer", value)
    if name.startswith(_HUGEPAGES) and not _fits_pages(amount, name.removeprefix(_HUGEPAGES)):
        holder.fault(here, "Invalid", f"{value} is not positive integer multiple of {name}", value)


def _fits_pages(amount: Decimal, size: str) -> bool:
    try:
        page = parse(size)
    except QuantityError:
        return False
    return page > 0 and page == page.to_integral_value() and ceil(amount) % int(page) == 0


def check_resource_name(holder: Field, here: str, name: str) -> None:
    """The name of a resource of any kind, at a field of `holder`: one of Kubernetes' own, or with a domain."""
    faults = qualified_faults(name)
    standard = "/" in name or name in _STANDARD or name.startswith((_HUGEPAGES, f"requests.{_HUGEPAGES}"))
    holder.errors += invalid(holder.at(here), name, faults if faults or standard else [_UNKNOWN_TEXT])


def check_container_name(holder: Field, here: str, name: str) -> None:
    """The name of a resource that a container can have."""
    check_resource_name(holder, here, name)
    if "/" not in name and name not in _NATIVE and not name.startswith(_HUGEPAGES):
        holder.fault(here, "Invalid", "must be a standard resource for containers", name)
    elif _is_foreign(name) and (name.startswith("requests.") or qualified_faults(f"requests.{name}")):
        holder.fault(here, "Invalid", "doesn't follow extended resource name standard", name)


def _check_pod_name(holder: Field, here: str, name: str) -> None:
    before = len(holder.errors)
    check_resource_name(holder, here, name)
    if len(holder.errors) == before and not name.startswith(_HUGEPAGES):
        holder.errors += supported(holder.at(here), name, _OF_PODS)


def _is_foreign(name: str) -> bool:
    """A name outside of Kubernetes's own domain: an extended resource."""
    return "/" in name and "kubernetes.io/" not in name


def overcommits(name: str) -> bool:
    """Whether less of a resource may be requested than its limit."""
    return not _is_foreign(name) and not name.startswith(_HUGEPAGES)


def _check_against_limit(resources: Field, name: str, request: str, limit: str | None) -> None:
    overcommit = overcommits(name)
    if limit is None:
        if not overcommit:
            resources.fault("limits", "Required", "Limit must be set for non overcommitable resources")
    elif not overcommit and parse(request) != parse(limit):
        resources.fault("requests", "Invalid", f"must be equal to {name} limit of {limit}", request)
    elif parse(request) > parse(limit):
        resources.fault("requests", "Invalid", f"must be less than or equal to {name} limit of {limit}", request)
