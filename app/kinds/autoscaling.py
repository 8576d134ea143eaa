"""Validation of HorizontalPodAutoscalers, in the API server's words. Pure.

Source: `validateHorizontalPodAutoscalerSpec` of Kubernetes 1.37.
"""

from __future__ import annotations

from app.kinds.fielderrors import Field
from app.kinds.name_syntax import label_faults, path_segment_faults
from app.kinds.resources import check_container_name
from app.kube.quantity import parse

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
    wanted = _METRICS.get(kind, "")
    for field in present[:1]:
        _check_source(metric.below(field), field)
    if wanted and wanted not in present:
        metric.fault(wanted, "Required", "must populate information for the given metric source")
    for field in present if len(present) != 1 else ():
        if field != wanted:
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
