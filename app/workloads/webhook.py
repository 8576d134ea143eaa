"""Checks rules and the tenants' objects when they are written, so that what could only fail later is refused at once.

Says when a check applies (creation, and changes of what is asked for), what is wrong with a rule or an object as a
whole, and what is legal but surprising; `rules`, `templates` and the guards know their parts. Runs in the tenant
cluster (WorkloadRule, UVS*) and in the infra cluster (TenantWorkloadRule, AdminWorkloadRule) alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from app.admission.chain import MutationPlan, refuse
from app.admission.parts import Context, Parts
from app.admission.review import Request, old_object, written_object
from app.placement.model import TenantPolicy, tenant_of
from app.placement.settings import ConfinementSettings
from app.settings.source import settings_as
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
    Expression,
    RuleKind,
)
from app.workloads.rules.key_reach import contradiction_in, fixed, unreachable
from app.workloads.rules.problems import name_problems, rule_problems
from app.workloads.templates.bounds import at, each, member, network_warnings, shown
from app.workloads.templates.problems import manifest_problems, template_problems, unknown_fields
from app.workloads.tenant_pods import TenantPodCheck

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


class RuleCheck:
    """Refuses rules and tenants' objects that could only fail later; neutral to everything else.

    Left alone: status, objects that are being deleted, mirrors (Berth writes them, and they show Pods as they are),
    and changes that leave the spec as it was, so that an object from before a check can still be labeled or released.
    """

    def __init__(self, policy: TenantPolicy | None = None) -> None:
        self._policy = policy or TenantPolicy()

    def check(self, request: Request, plan: MutationPlan) -> None:
        """Raise Denied with every problem ("InvalidRule", "InvalidObject"); warn of what is legal but surprising."""
        kind = (request.kind.group, request.kind.kind)
        if kind not in RULES and kind not in OBJECTS:
            return
        reason = "InvalidRule" if kind in RULES else "InvalidObject"
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
                refuse([message], reason=reason)
        refuse(problems(obj, kind, self._policy), reason=reason)
        plan.warnings += warnings(obj, kind, created_in=request.namespace if request.operation == "CREATE" else "")


def _unchanged(obj: JSON, old: JSON) -> bool:
    """Whether an update asks for nothing new. An update that removes the mark from a mirror asks for its Pod."""
    return bool(old.get("spec") == obj.get("spec")) and _is_mirror(obj) >= _is_mirror(old)


def _is_mirror(obj: JSON) -> bool:
    labels = at(obj, "metadata.labels")
    return isinstance(labels, dict) and MIRROR in labels


def _names_rule(obj: JSON) -> bool:
    return bool(member(at(obj, "metadata.annotations"), RULE_NAME))


def review(context: Context) -> Parts:
    settings = settings_as(context.settings, ConfinementSettings)
    policy = settings.placement.policy
    tenants = context.caches.namespaces(tenant_of) if settings.confine_tenants else None
    return Parts(checks=(RuleCheck(policy), TenantPodCheck(tenants, policy)))


def problems(obj: JSON, kind: Kind, policy: TenantPolicy) -> list[str]:
    """All that is wrong, one line each, beginning with the field's path."""
    spec = obj.get("spec")
    if kind in OBJECTS:
        return manifest_problems(member(spec, "object"), kind=OBJECTS[kind], policy=policy)
    rule_kind = RULES[kind]
    problems = [*_name(obj), *rule_problems(spec, kind=rule_kind)]
    if isinstance(spec, dict):
        problems += template_problems(spec.get("template"), trusted=rule_kind == "admin", policy=policy)
    return problems


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
    """Expressions of a valid rule that no workload decides, terms that hold for none, and what is never injected."""
    for term_path, written in each(spec, "workloadTerms", "spec"):
        term, alone = list[Expression](), True
        for path, fields in each(written, "matchExpressions", term_path):
            term.append(Expression(fields["key"], fields["operator"], frozenset(fields.get("values") or ())))
            verdict = fixed(term[-1])
            if verdict is not None and (not verdict.holds or unreachable(fields["key"])):
                which = "every" if verdict.holds else "no"
                yield f"{path}.key: {fields['operator']} holds for {which} workload: {verdict.why}"
            alone = alone and (verdict is None or verdict.holds)
        # Of a term that holds for none already, one reason is enough.
        if alone and (contradiction := contradiction_in(tuple(term))) is not None:
            place, why = contradiction
            yield f"{term_path}.matchExpressions[{place}]: holds for no workload: {why}"
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
            if match := _FROM_ANNOTATION.fullmatch(at(item, "fieldRef.fieldPath") or ""):
                yield f"{path}.fieldRef.fieldPath", match[1]
