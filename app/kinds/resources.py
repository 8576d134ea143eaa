"""Validation of the resources of containers and of a whole Pod, and of what scales by them, in the API server's words.

Pure. What scales by resources are HorizontalPodAutoscalers. Source: `validateResourceRequirements` and
`validatePodResources` of Kubernetes 1.37. What they sum up to is in `requests`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import ceil

from app.kinds.claims import check_container_claims, claim_names
from app.kinds.fielderrors import MOST_FAULTS, Field, invalid, supported
from app.kinds.name_syntax import label_faults, path_segment_faults, qualified_faults
from app.kinds.requests import Amounts, amounts_of, container_limits, stated_requests, together
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
_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
"""The field of each type of metric."""
_ORDER = ("object", "external", "pods", "resource", "containerResource")
_LONGEST_WINDOW = 3600
_LONGEST_PERIOD = 1800
_POSITIVE = "must be greater than zero"


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


def check_autoscaler(whole: Field) -> None:
    """What is scaled between which numbers of Pods, by which metrics, and how fast."""
    spec = whole.below("spec")
    least, most = spec.value.get("minReplicas", 1), spec.value.get("maxReplicas") or 0
    spec.number("minReplicas", 0, "must be greater than or equal to 0")
    if not most:
        spec.fault("maxReplicas", "Required", "must be set and greater than 0")
    spec.number("maxReplicas", 0, "must be greater than or equal to 1")
    if most < least:
        spec.fault("maxReplicas", "Invalid", "must be greater than or equal to `minReplicas`", most)
    _check_reference(spec.below("scaleTargetRef"), grouped=True)
    for metric in spec.each("metrics"):
        _check_metric(metric)
    if least == 0 and not any(metric.text("type") in ("Object", "External") for metric in spec.each("metrics")):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        spec.fault("metrics", "Forbidden", text)
    for direction in spec.below("behavior").present("scaleUp", "scaleDown"):
        _check_rules(direction)
    spec.number("targetCPUUtilizationPercentage", 1, "must be greater than 0")


def _check_reference(reference: Field, *, grouped: bool) -> None:
    """An object by kind and name; `grouped`: of an API group."""
    for field in ("kind", "name"):
        reference.named(field, path_segment_faults)
    version = reference.text("apiVersion")
    if version.count("/") > 1:
        reference.fault("apiVersion", "Invalid", f"unexpected GroupVersion string: {version}", version)
    elif grouped and not version.rpartition("/")[0]:
        reference.fault("apiVersion", "Invalid", "apiVersion must specify API group", version)


def _check_metric(metric: Field) -> None:
    kind = metric.text("type")
    if not kind:
        metric.fault("type", "Required", "must specify a metric source type")
    metric.one_of("type", _METRICS)
    present = [field for field in _ORDER if field in metric.value]
    source_field = _METRICS.get(kind, "")
    for field in present[:1]:
        _check_source(metric.below(field), field)
    if source_field and source_field not in present:
        metric.fault(source_field, "Required", "must populate information for the given metric source")
    for field in present if len(present) != 1 else ():
        if field != source_field:
            metric.fault(field, "Forbidden", "must populate the given metric source only")


def _check_source(source: Field, kind: str) -> None:
    """A metric by name, and its target: for each Pod, or for all of them together."""
    target = source.below("target")
    given = target.value.keys() & {"value", "averageValue", "averageUtilization"}
    _check_target(target)
    if kind in ("resource", "containerResource"):
        _check_resource(source, given, of_container=kind == "containerResource")
        return
    if kind == "object":
        _check_reference(source.below("describedObject"), grouped=False)
    source.below("metric").named("name", path_segment_faults, "must specify a metric name")
    if kind == "pods" and "averageValue" not in given:
        target.fault("averageValue", "Required", "must specify a positive target averageValue")
    elif kind != "pods" and not given & {"value", "averageValue"}:
        target.fault("averageValue", "Required", "must set either a target value or averageValue")
    elif kind == "external" and given >= {"value", "averageValue"}:
        target.fault("value", "Forbidden", "may not set both a target value for metric and a per-pod target")


def _check_resource(source: Field, given: set[str], *, of_container: bool) -> None:
    """What the Pods, or one of their containers, use of a resource."""
    if source.required("name", "must specify a resource name") and of_container:
        check_container_name(source, "name", source.text("name"))
    if of_container:
        source.named("container", label_faults, "must specify a container")
    if not given & {"averageUtilization", "averageValue"}:
        text = "must set either a target raw value or a target utilization"
        source.fault("target.averageUtilization", "Required", text)
    elif given >= {"averageUtilization", "averageValue"}:
        text = "may not set both a target raw value and a target utilization"
        source.fault("target.averageValue", "Forbidden", text)


def _check_target(target: Field) -> None:
    target.required("type", "must specify a metric target type")
    if target.text("type") not in ("Utilization", "Value", "AverageValue"):
        text = "must be either Utilization, Value, or AverageValue"
        target.fault("type", "Invalid", text, target.text("type"))
    for field in ("value", "averageValue"):
        if parse(target.value.get(field, "1")) <= 0:
            target.fault(field, "Invalid", "must be positive")
    target.number("averageUtilization", 1, "must be greater than 0")


def _check_rules(rules: Field) -> None:
    window = "stabilizationWindowSeconds"
    rules.number(window, 0, "must be greater than or equal to zero")
    rules.number(window, -(2**31), f"must be less than or equal to {_LONGEST_WINDOW}", _LONGEST_WINDOW)
    rules.one_of("selectPolicy", ("Disabled", "Max", "Min"), optional=True)
    if "policies" in rules.value:
        rules.required("policies", "must specify at least one Policy")
    for policy in rules.each("policies"):
        policy.one_of("type", ("Percent", "Pods"))
        for field in ("value", "periodSeconds"):
            policy.number(field, 1, _POSITIVE, absent=0)
        policy.number("periodSeconds", -(2**31), f"must be less than or equal to {_LONGEST_PERIOD}", _LONGEST_PERIOD)
    if parse(rules.value.get("tolerance", "0")) < 0:
        rules.fault("tolerance", "Invalid", "must be greater than or equal to 0")
