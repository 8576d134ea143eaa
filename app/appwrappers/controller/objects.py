"""The objects that are created: the templates of an AppWrapper with its marks, and what Kueue adds to their Pods. Pure.

Facts: what is added, and what is a conflict, is that of AppWrapper v1.2. Names for `metadata.generateName` follow
from the AppWrapper, so that what was created before a crash is found again and not created twice. Its Autopilot keeps
Pods from nodes that health checks have labeled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from app.appwrappers.controller.outcomes import uses
from app.appwrappers.controller.stored import AppWrapper
from app.appwrappers.model import APP_WRAPPER, APP_WRAPPER_UID, APP_WRAPPERS, POD_SET
from app.appwrappers.options import Autopilot, OperatorConfig
from app.appwrappers.podsets.inference import put_template
from app.kube.resources import controller_of, controller_reference
from app.numbers import shown, worded
from app.text import cut
from app.wire import JSON

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SUFFIX = 5


class ConflictError(ValueError):
    """The template already says something else than what has to be added."""


def name_of(metadata: JSON, uid: str, index: int, attempt: int) -> str:
    """The name of the object of a component: its own, else one that follows its `generateName`."""
    if metadata.get("name"):
        return str(metadata["name"])
    digest = hashlib.sha256(f"{uid}/{index}/{attempt}".encode()).hexdigest()[:_SUFFIX]
    return f"{str(metadata.get('generateName') or '')[: 63 - _SUFFIX]}{digest}"


def object_of(wrapper: AppWrapper, index: int, config: OperatorConfig, *, blocks: bool = True) -> JSON:
    """The object of a component, as it is to be created. Raises ValueError where that cannot be.

    It `blocks` the deletion of its owner where who creates it may change the finalizers of AppWrappers.
    """
    component, status = wrapper.component(index), wrapper.component_statuses
    namespace, name = wrapper.key
    obj: JSON = component["template"]
    metadata = obj["metadata"] = obj.get("metadata") or {}
    if metadata.get("namespace") not in (None, "", namespace):
        raise ConflictError(f"metadata.namespace: want {namespace}, got {metadata['namespace']}")
    if controller_of(metadata):
        raise ConflictError("metadata.ownerReferences: the template names another controller")
    metadata["namespace"], metadata["name"] = namespace, status[index]["name"]
    metadata.pop("generateName", None)
    labels = _texts(metadata.get("labels"), "metadata.labels")
    metadata["labels"] = {APP_WRAPPER: name} | labels | {APP_WRAPPER_UID: wrapper.uid}
    owners = _list(metadata.get("ownerReferences"), "metadata.ownerReferences")
    metadata["ownerReferences"] = [*owners, owner_reference(name, wrapper.uid, blocks=blocks)]
    first = sum(len(entry["podSets"]) for entry in status[:index])
    infos = component.get("podSetInfos") or []
    for number, pod_set in enumerate(status[index]["podSets"]):
        marks = {APP_WRAPPER: name, APP_WRAPPER_UID: wrapper.uid, POD_SET: str(first + number)}
        template = put_template(obj, pod_set["path"])
        _inject(template, infos[number] if number < len(infos) else {}, marks, pod_set["path"])
        spec = template["spec"]
        if config.scheduler_name and not spec.get("schedulerName"):
            spec["schedulerName"] = config.scheduler_name
        avoid_unhealthy_nodes(spec, config.autopilot)
    return obj


def owner_reference(name: str, uid: str, *, blocks: bool = True) -> JSON:
    """An AppWrapper as the controller of an object."""
    return controller_reference(APP_WRAPPERS, name, uid) | ({"blockOwnerDeletion": True} if blocks else {})


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


def _inject(template: JSON, info: JSON, marks: Mapping[str, str], path: str) -> None:
    metadata = template["metadata"] = template.get("metadata") or {}
    spec = template["spec"]
    if metadata is spec:
        raise ConflictError(f"{path}: no Pod template")
    for owner, field, added in (
        (metadata, "annotations", _texts(info.get("annotations"), "podSetInfos: annotations")),
        (metadata, "labels", _texts(info.get("labels"), "podSetInfos: labels") | dict(marks)),
        (spec, "nodeSelector", _texts(info.get("nodeSelector"), "podSetInfos: nodeSelector")),
    ):
        if added:
            owner[field] = _joined(_texts(owner.get(field), f"{path}: {field}"), added, f"{path}: {field}")
    if tolerations := _list(info.get("tolerations"), "podSetInfos: tolerations"):
        present = _list(spec.get("tolerations"), f"{path}.spec.tolerations")
        spec["tolerations"] = [*present, *(toleration for toleration in tolerations if toleration not in present)]
    if gates := _list(info.get("schedulingGates"), "podSetInfos: schedulingGates"):
        present = _list(spec.get("schedulingGates"), f"{path}.spec.schedulingGates")
        names = [gate.get("name") for gate in present]
        spec["schedulingGates"] = [*present, *(gate for gate in gates if gate.get("name") not in names)]


def _joined(present: dict[str, str], added: Mapping[str, str], what: str) -> dict[str, str]:
    for key, value in added.items():
        if present.get(key, value) != value:
            raise ConflictError(f"{what}[{key}]: the template has {present[key]!r}, want {value!r}")
    return present | dict(added)


def _texts(value: Any, path: str) -> dict[str, str]:
    """A map of texts, as the API server would read it. Raises ValueError."""
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"{path}: want a map of texts, got {cut(shown(value))}")
    return {key: worded(item) for key, item in (value or {}).items()}


def _list(value: Any, path: str) -> list[JSON]:
    """A list of objects. Raises ValueError."""
    if value is not None and not (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
        raise ValueError(f"{path}: want a list of objects, got {cut(shown(value))}")
    return list(value or ())


def _not_in(values: Mapping[str, list[str]]) -> list[JSON]:
    return [{"key": key, "operator": "NotIn", "values": list(texts)} for key, texts in values.items()]


def _asked(spec: JSON) -> Iterator[str]:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for part in ("limits", "requests"):
            for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
                if uses(amount):
                    yield name
