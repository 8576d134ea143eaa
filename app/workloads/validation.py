"""What is wrong with a rule or an object of a tenant as a whole, and what is legal but surprising. Pure.

`rules`, `templates` and the guards know their parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from app.placement.policy import TenantPolicy
from app.text import cut
from app.wire import JSON
from app.workloads.model import (
    ADMIN_RULES,
    SYSTEM_NAMESPACE,
    TENANT_RULES,
    UVS_RESOURCES,
    WORKLOAD_RULES,
    Expression,
    RuleKind,
)
from app.workloads.rules.key_reach import fixed, unreachable
from app.workloads.rules.problems import name_problems, rule_problems
from app.workloads.templates.marks import at, each, member, network_warnings, shown
from app.workloads.templates.problems import manifest_problems, template_problems, unknown_fields

Kind = tuple[str, str]
"""Group and kind."""
RULES: dict[Kind, RuleKind] = {
    (WORKLOAD_RULES.group, WORKLOAD_RULES.kind): "tenant",
    (TENANT_RULES.group, TENANT_RULES.kind): "tenant",
    (ADMIN_RULES.group, ADMIN_RULES.kind): "admin",
}
OBJECTS: dict[Kind, str] = {
    (resource.group, resource.kind): resource.kind.removeprefix("UVS") for resource in UVS_RESOURCES
}
"""The objects of tenants, with the kind of what is made of them."""
_OF_AGENTS = {(WORKLOAD_RULES.group, WORKLOAD_RULES.kind), *OBJECTS}
"""What an agent reads, in one namespace of its cluster."""
_WHOLE_NAME = 63 - 36 - 1
"""Characters of a rule's name that stay as they are in the name of a Pod, beside the uid of a workload."""
_KEYS = 8
"""Keys of a rule that warnings name."""
_FROM_ANNOTATION = re.compile(r"metadata\.annotations\['([^']+)'\]")


def problems(obj: JSON, kind: Kind, policy: TenantPolicy) -> list[str]:
    """All that is wrong, one line each, beginning with the field's path."""
    spec = obj.get("spec")
    if kind in OBJECTS:
        return manifest_problems(member(spec, "object"), kind=OBJECTS[kind], policy=policy)
    rule_kind = RULES[kind]
    found = [*_name(obj), *rule_problems(spec, kind=rule_kind)]
    if isinstance(spec, dict):
        found += template_problems(spec.get("template"), trusted=rule_kind == "admin", policy=policy)
    return found


def warnings(obj: JSON, kind: Kind, *, created_in: str) -> Iterator[str]:
    """What is legal but surprising in an object without problems; `created_in` is "" where it is not created."""
    yield from _rule_warnings(obj) if kind in RULES else _object_warnings(obj, OBJECTS[kind])
    if kind in _OF_AGENTS and created_in not in ("", SYSTEM_NAMESPACE):
        yield (
            f"metadata.namespace: agents look at namespace {SYSTEM_NAMESPACE} unless configured otherwise, "
            f"not at {cut(created_in)}"
        )


def _name(obj: JSON) -> list[str]:
    """The name of a rule; where the API server is to make it, what it begins with."""
    name, beginning = at(obj, "metadata.name"), at(obj, "metadata.generateName")
    if name or not isinstance(beginning, str) or not beginning:
        return name_problems(name)
    return name_problems(f"{beginning}x", "metadata.generateName")


def _rule_warnings(obj: JSON) -> Iterator[str]:
    name = at(obj, "metadata.name")
    if isinstance(name, str) and len(name) > _WHOLE_NAME:
        yield f"metadata.name: has more than {_WHOLE_NAME} characters and is shortened in the names of Pods"
    spec = obj.get("spec")
    yield from islice(_key_warnings(spec), _KEYS)
    template = member(spec, "template")
    metadata = member(template, "metadata")
    for field in ("name", "generateName", "namespace", "ownerReferences", "finalizers"):
        if member(metadata, field):
            yield f"spec.template.metadata.{field}: not used; the rule gives the Pods theirs"
    written = {at(entry, "asAnnotation.name") for entry in member(spec, "workloadInfoInject") or []}
    written |= set(member(metadata, "annotations") or {})
    for path, annotation in _read_annotations(member(template, "spec")):
        if annotation not in written:
            yield f"{path}: neither workloadInfoInject nor the template writes the annotation {shown(annotation)}"
    yield from unknown_fields(template, kind="Pod", path="spec.template")
    yield from network_warnings(metadata, "spec.template.metadata")


def _key_warnings(spec: Any) -> Iterator[str]:
    """The expressions of a valid rule that no workload decides, and what is never injected."""
    for term_path, term in each(spec, "workloadTerms", "spec"):
        for path, one in each(term, "matchExpressions", term_path):
            found = fixed(Expression(one["key"], one["operator"], frozenset(one.get("values") or ())))
            if found is not None and (not found.holds or unreachable(one["key"])):
                which = "every" if found.holds else "no"
                yield f"{path}.key: {one['operator']} holds for {which} workload: {found.why}"
    for path, injection in each(spec, "workloadInfoInject", "spec"):
        if why := unreachable(injection["workloadKey"]):
            yield f"{path}.workloadKey: no workload has a value there: {why}"


def _object_warnings(obj: JSON, kind: str) -> Iterator[str]:
    manifest = member(obj.get("spec"), "object")
    yield from unknown_fields(manifest, kind=kind, path="spec.object")
    for path in ("metadata",) if kind == "Pod" else ("spec.template.metadata",) if kind == "DaemonSet" else ():
        yield from network_warnings(at(manifest, path), f"spec.object.{path}")
    namespace = at(manifest, "metadata.namespace")
    if namespace and namespace != at(obj, "metadata.namespace"):
        yield f"spec.object.metadata.namespace: {cut(str(namespace))} is not used; the tenant's namespace is"


def _read_annotations(spec: Any) -> Iterator[tuple[str, str]]:
    """The annotations that downward API volumes of a valid Pod read, with the path of each."""
    for holder, volume in each(spec, "volumes", "spec.template.spec"):
        for path, item in each(volume, "downwardAPI.items", holder):
            if found := _FROM_ANNOTATION.fullmatch(at(item, "fieldRef.fieldPath") or ""):
                yield f"{path}.fieldRef.fieldPath", found[1]
