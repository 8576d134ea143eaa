"""Checks rules and the tenants' objects when they are written, so that what could only fail later is refused at once.

Owns when a check applies (creation, and changes of what is asked for) and how findings are reported; what is wrong is
found by `rules`, `templates` and the guards. Runs in the tenant cluster (WorkloadRule, UVS*) and in the infra cluster
(TenantWorkloadRule, AdminWorkloadRule) alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from app.admission.chain import Plan
from app.admission.review import Request, old_object, written_object
from app.placement.policy import TenantPolicy
from app.text import cut
from app.wire import JSON
from app.workloads.model import (
    ADMIN_RULES,
    MIRROR,
    RULE_NAME,
    SYSTEM_NAMESPACE,
    TENANT_RULES,
    UVS_PODS,
    UVS_RESOURCES,
    WORKLOAD_RULES,
    RuleKind,
)
from app.workloads.rules.problems import rule_problems
from app.workloads.templates import marks, problems

_RULES: dict[tuple[str, str], RuleKind] = {
    (WORKLOAD_RULES.group, WORKLOAD_RULES.kind): "tenant",
    (TENANT_RULES.group, TENANT_RULES.kind): "tenant",
    (ADMIN_RULES.group, ADMIN_RULES.kind): "admin",
}
_OBJECTS = {(resource.group, resource.kind): resource.kind.removeprefix("UVS") for resource in UVS_RESOURCES}
_OF_AGENTS = {(WORKLOAD_RULES.group, WORKLOAD_RULES.kind), *_OBJECTS}
"""What an agent reads, in one namespace of its cluster."""
_WHOLE_NAME = 63 - 36 - 1
"""Characters of a rule's name that stay as they are in the name of a Pod, beside the uid of a workload."""
_FROM_ANNOTATION = re.compile(r"metadata\.annotations\['([^']+)'\]")


class RuleCheck:
    """Refuses rules and tenants' objects that could only fail later; neutral to everything else.

    Left alone: status, objects that are being deleted, mirrors (Berth writes them, and they show Pods as they are),
    and changes that leave the spec as it was, so that an object from before a check can still be labeled or released.
    """

    def __init__(self, policy: TenantPolicy | None = None) -> None:
        self._policy = policy or TenantPolicy()

    def check(self, request: Request, plan: Plan) -> None:
        """Raise Denied with every problem ("InvalidRule", "InvalidObject"); warn of what is legal but surprising."""
        kind = (request.kind.group, request.kind.kind)
        if kind not in _RULES and kind not in _OBJECTS:
            return
        reason = "InvalidRule" if kind in _RULES else "InvalidObject"
        obj = written_object(request, reason=reason)
        if obj is None:
            return
        old = old_object(request, reason=reason)
        if old is not None and _unchanged(obj, old):
            return
        if kind == (UVS_PODS.group, UVS_PODS.kind):
            if _is_mirror(obj):
                if not _names_rule(obj):
                    text = "marks what Berth shows of the infra cluster; nothing is created for it there"
                    plan.warnings.append(f"metadata.labels[{MIRROR}]: {text}")
                return
            # What Berth has made to show a companion; a mark by hand names no rule.
            if old is not None and _is_mirror(old) and _names_rule(old):
                message = f"metadata.labels: this is a mirror of a companion: leave the label {MIRROR}"
                marks.refuse([message], reason=reason)
        marks.refuse(self._problems(obj, kind), reason=reason)
        plan.warnings += _rule_warnings(obj) if kind in _RULES else _object_warnings(obj, _OBJECTS[kind])
        if kind in _OF_AGENTS and request.operation == "CREATE" and request.namespace not in ("", SYSTEM_NAMESPACE):
            plan.warnings.append(
                f"metadata.namespace: agents look at namespace {SYSTEM_NAMESPACE} unless told otherwise, "
                f"not at {cut(request.namespace)}"
            )

    def _problems(self, obj: JSON, kind: tuple[str, str]) -> list[str]:
        spec = obj.get("spec")
        if kind in _OBJECTS:
            return problems.manifest_problems(marks.member(spec, "object"), kind=_OBJECTS[kind], policy=self._policy)
        rule_kind = _RULES[kind]
        found = [*_name(obj), *rule_problems(spec, kind=rule_kind)]
        if isinstance(spec, dict):
            found += problems.template_problems(spec.get("template"), trusted=rule_kind == "admin", policy=self._policy)
        return found


def _name(obj: JSON) -> list[str]:
    """The name of a rule; where the API server is to make it, what it begins with."""
    name, beginning = marks.at(obj, "metadata.name"), marks.at(obj, "metadata.generateName")
    if name or not isinstance(beginning, str) or not beginning:
        return problems.name_problems(name)
    return problems.name_problems(f"{beginning}x", "metadata.generateName")


def _unchanged(obj: JSON, old: JSON) -> bool:
    """Whether an update asks for nothing new. An update that removes the mark from a mirror asks for its Pod."""
    return bool(old.get("spec") == obj.get("spec")) and _is_mirror(obj) >= _is_mirror(old)


def _is_mirror(obj: JSON) -> bool:
    labels = marks.at(obj, "metadata.labels")
    return isinstance(labels, dict) and MIRROR in labels


def _names_rule(obj: JSON) -> bool:
    return bool(marks.member(marks.at(obj, "metadata.annotations"), RULE_NAME))


def _rule_warnings(obj: JSON) -> Iterator[str]:
    name = marks.at(obj, "metadata.name")
    if isinstance(name, str) and len(name) > _WHOLE_NAME:
        yield f"metadata.name: has more than {_WHOLE_NAME} characters and is shortened in the names of Pods"
    spec = obj.get("spec")
    template = marks.member(spec, "template")
    metadata = marks.member(template, "metadata")
    for field in ("name", "generateName", "namespace", "ownerReferences", "finalizers"):
        if marks.member(metadata, field):
            yield f"spec.template.metadata.{field}: not used; the rule gives the Pods theirs"
    written = {marks.at(one, "asAnnotation.name") for one in marks.member(spec, "workloadInfoInject") or []}
    written |= set(marks.member(metadata, "annotations") or {})
    for path, annotation in _read_annotations(marks.member(template, "spec")):
        if annotation not in written:
            yield f"{path}: neither workloadInfoInject nor the template writes the annotation {marks.shown(annotation)}"
    yield from problems.unknown_fields(template, kind="Pod", path="spec.template")


def _object_warnings(obj: JSON, kind: str) -> Iterator[str]:
    manifest = marks.member(obj.get("spec"), "object")
    yield from problems.unknown_fields(manifest, kind=kind, path="spec.object")
    namespace = marks.at(manifest, "metadata.namespace")
    if namespace and namespace != marks.at(obj, "metadata.namespace"):
        yield f"spec.object.metadata.namespace: {cut(str(namespace))} is not used; the tenant's namespace is"


def _read_annotations(spec: Any) -> Iterator[tuple[str, str]]:
    """The annotations that downward API volumes of a valid Pod read, with the path of each."""
    for at, volume in enumerate(marks.member(spec, "volumes") or []):
        for index, item in enumerate(marks.at(volume, "downwardAPI.items") or []):
            if found := _FROM_ANNOTATION.fullmatch(marks.at(item, "fieldRef.fieldPath") or ""):
                path = f"spec.template.spec.volumes[{at}].downwardAPI.items[{index}].fieldRef.fieldPath"
                yield path, found[1]
