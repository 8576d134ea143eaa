"""Translates between the messages of the gRPC services and the JSON of Kubernetes objects: rules, workloads, Pods.

Pure; used by the gateway and the agent. Whether a rule is a good one is checked in app.workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from google.protobuf import struct_pb2

from app.errors import Terminal
from app.kube.conditions import condition
from app.kube.names import check_label_value, domain_above
from app.numbers import whole_or
from app.tenancy.proto import admin_pb, resource_pb, rule_pb, workload_pb
from app.wire import JSON, decode_json, mapping
from app.workloads.companions.marks import obstacles_of
from app.workloads.model import (
    COMPANION,
    ORCHESTRATOR,
    RESERVED_DOMAINS,
    RESOURCE_TYPE,
    RULE_GENERATION,
    RULE_NAME,
    RULE_OWNER,
    WORKLOAD,
)

API_OWNER = "api"
"""Who keeps what was made without naming an owner."""
LARGEST_MESSAGE = "berth-largest-message"
"""The header with which a gateway begins a stream: how many bytes a message may have that it reads."""
_KUBERNETES = workload_pb.ORCHESTRATOR_TYPE_KUBERNETES
_OPERATORS: dict[str, rule_pb.MatchOperation] = {
    "In": rule_pb.MATCH_OPERATION_IN,
    "NotIn": rule_pb.MATCH_OPERATION_NOT_IN,
    "Exists": rule_pb.MATCH_OPERATION_EXISTS,
    "DoesNotExist": rule_pb.MATCH_OPERATION_DOES_NOT_EXIST,
}
_OPERATIONS = {number: name for name, number in _OPERATORS.items()}
_CONDITION = {
    "type": "type",
    "status": "status",
    "reason": "reason",
    "message": "message",
    "lastTransitionTime": "last_transition_time",
}
_EXTRA = ("labels", "annotations")
_canonical = msgspec.json.Encoder(order="deterministic").encode


class MessageError(Terminal):
    """A message that stands for no object; `problems` begin with the path of a field each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def canonical(value: Any) -> bytes:
    """Compact JSON with sorted keys: equal values give equal bytes. Raises ValueError for what JSON cannot say."""
    try:
        encoded: bytes = _canonical(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    return encoded


def owner_problems(owner: str, path: str) -> list[str]:
    """Why this cannot be the owner of something: it becomes the value of a label."""
    try:
        check_label_value(owner)
    except ValueError as error:
        return [f"{path}: {error}"]
    return []


def spec_of_data(data: rule_pb.WorkloadRuleData, *, path: str = "rule.data") -> JSON:
    """The spec of a stored rule.

    Raises `MessageError` for a template that is not a JSON object, and for another orchestrator.

    An empty policy is "Any". An operation without a name stands as its number, for the check of rules to refuse.
    """
    problems = []
    if data.orchestrator_type not in (workload_pb.ORCHESTRATOR_TYPE_UNSPECIFIED, _KUBERNETES):
        problems.append(f"{path}.orchestrator_type: {data.orchestrator_type} is unknown: use 1 (Kubernetes)")
    template: Any = {}
    try:
        template = decode_json(data.rule_template)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        problems.append(f"{path}.rule_template: want a Pod manifest in JSON")
    if not isinstance(template, dict):
        problems.append(f"{path}.rule_template: want a JSON object, a Pod manifest")
    if problems:
        raise MessageError(problems)
    spec: JSON = {
        "resourceType": data.resource_type,
        "workloadTerms": [
            {"matchExpressions": [_expression_json(expression) for expression in term.match_expressions]}
            for term in data.workload_terms
        ],
        "dpuSelectionPolicy": data.dpu_selection_policy or "Any",
        "template": template,
    }
    if data.workload_info_inject:
        spec["workloadInfoInject"] = [
            {"workloadKey": injection.key, "asAnnotation": {"name": injection.as_annotation.name}}
            for injection in data.workload_info_inject
        ]
    return spec


def _expression_json(expression: rule_pb.MatchExpression) -> JSON:
    operator = _OPERATIONS.get(expression.operation, str(int(expression.operation)))
    values = {"values": list(expression.values)} if expression.values else {}
    return {"key": expression.key, "operator": operator, **values}


def data_of_spec(spec: Mapping[str, Any]) -> rule_pb.WorkloadRuleData:
    """The message of a rule's spec, of any of the three kinds. What has the wrong type is left out, never guessed."""
    return rule_pb.WorkloadRuleData(
        orchestrator_type=_KUBERNETES,
        resource_type=_text(spec.get("resourceType")),
        dpu_selection_policy=_text(spec.get("dpuSelectionPolicy")) or "Any",
        workload_terms=[
            rule_pb.WorkloadTerm(
                match_expressions=[_expression_message(entry) for entry in _objects(term.get("matchExpressions"))]
            )
            for term in _objects(spec.get("workloadTerms"))
        ],
        workload_info_inject=[
            rule_pb.WorkloadInfoInject(
                key=_text(entry.get("workloadKey")),
                as_annotation=rule_pb.AsAnnotation(name=_text(mapping(entry.get("asAnnotation")).get("name"))),
            )
            for entry in _objects(spec.get("workloadInfoInject"))
        ],
        rule_template=canonical(mapping(spec.get("template"))),
    )


def _expression_message(entry: Mapping[str, Any]) -> rule_pb.MatchExpression:
    return rule_pb.MatchExpression(
        key=_text(entry.get("key")),
        operation=_OPERATORS.get(_text(entry.get("operator")), rule_pb.MATCH_OPERATION_UNSPECIFIED),
        values=_texts(entry.get("values")),
    )


def status_message(status: Mapping[str, Any], *, observed_generation: int) -> rule_pb.RuleStatus:
    running = {"running": _number(status["running"]) & 0x7FFFFFFF} if "running" in status else {}
    return rule_pb.RuleStatus(
        result=_text(status.get("result")),
        message=_text(status.get("message")),
        observed_generation=observed_generation,
        matched=_number(status.get("matched")) & 0x7FFFFFFF,
        created=_number(status.get("created")) & 0x7FFFFFFF,
        conditions=[
            rule_pb.RuleCondition(**{field: _text(entry.get(name)) for name, field in _CONDITION.items()})
            for entry in _objects(status.get("conditions"))
        ],
        **running,
    )


def status_json(status: rule_pb.RuleStatus) -> JSON:
    """The status of a WorkloadRule; its conditions carry `observedGeneration` as well."""
    observed = status.observed_generation
    return {
        "result": status.result,
        "message": status.message,
        "observedGeneration": observed,
        "matched": status.matched,
        "created": status.created,
        **({"running": status.running} if status.HasField("running") else {}),
        "conditions": [
            {name: getattr(entry, field) for name, field in _CONDITION.items()} | {"observedGeneration": observed}
            for entry in status.conditions
        ],
    }


def rule_message(obj: JSON) -> rule_pb.WorkloadRule:
    """The message of a stored tenant rule. Its status is about the generation of the WorkloadRule it was made from.

    While the status is about an older spec `observed_generation` is 0: nothing is known of the one that stands.
    """
    metadata, status = mapping(obj.get("metadata")), mapping(obj.get("status"))
    annotation = _text(mapping(metadata.get("annotations")).get(RULE_GENERATION))
    generation = _number(annotation)
    observed = _number(status.get("observedGeneration"))
    if generation:
        observed = generation if observed == _number(metadata.get("generation")) else 0
    return rule_pb.WorkloadRule(
        id=_text(metadata.get("name")),
        data=data_of_spec(mapping(obj.get("spec"))),
        owner=_text(mapping(metadata.get("labels")).get(RULE_OWNER)),
        generation=generation,
        status=status_message(status, observed_generation=observed),
    )


def admin_rule_message(obj: JSON) -> admin_pb.AdminWorkloadRule:
    metadata, spec, status = (mapping(obj.get(part)) for part in ("metadata", "spec", "status"))
    return admin_pb.AdminWorkloadRule(
        id=_text(metadata.get("name")),
        tenant_match=_texts(spec.get("tenantMatch")),
        data=data_of_spec(spec),
        status=status_message(status, observed_generation=_number(status.get("observedGeneration"))),
    )


def spec_of_workload(message: workload_pb.Workload) -> JSON:
    """The spec of a Workload. Of `extra` the labels and annotations are kept, {} where there are none.

    Raises `MessageError` for another orchestrator or resource type, and for extras that are no maps of strings.
    """
    metadata, state = message.metadata, message.state
    problems = []
    if metadata.orchestrator != _KUBERNETES:
        problems.append(f"metadata.orchestrator: {metadata.orchestrator} is unknown: use 1 (Kubernetes)")
    if metadata.resource_type != RESOURCE_TYPE:
        problems.append(f"metadata.resource_type: use {RESOURCE_TYPE}")
    extra = {part: _strings(state.extra, part) for part in _EXTRA}
    problems += [f"state.extra.{part}: want an object of strings" for part, strings in extra.items() if strings is None]
    if problems:
        raise MessageError(problems)
    return {
        "metadata": {
            "id": metadata.id,
            "orchestrator": ORCHESTRATOR,
            "resourceType": metadata.resource_type,
            "resourceName": metadata.resource_name,
            "resourceNamespace": metadata.resource_namespace,
        },
        "state": {"nodeName": state.node_name, "ready": state.ready, "extra": extra},
    }


def update_of_spec(spec: Mapping[str, Any]) -> workload_pb.WorkloadStreamRequest:
    """The event that brings a Workload of this spec. What has the wrong type is left out."""
    # Filled in its place: a message that becomes a part of another is encoded and decoded for it.
    request = workload_pb.WorkloadStreamRequest()
    metadata, state = mapping(spec.get("metadata")), mapping(spec.get("state"))
    message = request.update.metadata
    message.id = _text(metadata.get("id"))
    message.orchestrator = _KUBERNETES
    message.resource_type = _text(metadata.get("resourceType")) or RESOURCE_TYPE
    message.resource_namespace = _text(metadata.get("resourceNamespace"))
    message.resource_name = _text(metadata.get("resourceName"))
    request.update.state.node_name = _text(state.get("nodeName"))
    request.update.state.ready = state.get("ready") is True
    extra = mapping(state.get("extra"))
    for part in _EXTRA:
        struct = request.update.state.extra.fields[part].struct_value
        struct.SetInParent()
        fields = struct.fields
        for key, value in mapping(extra.get(part)).items():
            if isinstance(value, str):
                fields[key].string_value = value
    return request


def pod_summary(pod: JSON) -> resource_pb.PodSummary:
    """The message of a Pod that its tenant may see; a companion, which has our mark, is shown with its manifest."""
    metadata, status, spec = (pod.get(part) or {} for part in ("metadata", "status", "spec"))
    companion = COMPANION in (metadata.get("labels") or {})
    summary = resource_pb.PodSummary(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        origin=resource_pb.ORIGIN_RULE if companion else resource_pb.ORIGIN_RESOURCE,
        phase=status.get("phase", ""),
        node_name=spec.get("nodeName", ""),
        ready=condition(status, "Ready").get("status") == "True",
    )
    if obstacles := obstacles_of(pod):
        summary.status = canonical(obstacles)
    if companion:
        annotations = metadata.get("annotations") or {}
        shown = {"name": metadata["name"], **public_marks(metadata)}
        summary.rule = annotations.get(RULE_NAME, "")
        summary.workload_id = annotations.get(WORKLOAD, "").partition("/")[2]
        summary.manifest = canonical({"apiVersion": "v1", "kind": "Pod", "metadata": shown, "spec": spec})
    return summary


def public_marks(metadata: JSON) -> JSON:
    """Labels and annotations, where there are any, without Berth's own, but with the name of the rule."""
    marks = {
        part: {
            key: value
            for key, value in mapping(metadata.get(part)).items()
            if key == RULE_NAME or not domain_above(key, RESERVED_DOMAINS)
        }
        for part in ("labels", "annotations")
    }
    return {part: entries for part, entries in marks.items() if entries}


def _strings(struct: struct_pb2.Struct, part: str) -> dict[str, str] | None:
    """The strings of an object, {} where there is none; None for anything else."""
    if part not in struct.fields or (value := struct.fields[part]).HasField("null_value"):
        return {}
    members = value.struct_value.fields
    strings = {key: members[key].string_value for key in members}
    # The text of what is no string is empty.
    typed = all(strings.values()) or all(members[key].HasField("string_value") for key in members)
    return strings if typed and value.HasField("struct_value") else None


def _objects(value: Any) -> list[JSON]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    """Of a field of 64 bits; 0 for anything else."""
    return number if (number := whole_or(value, 0)) < 2**63 else 0
