"""From a workload and a rule to the companion that should exist: its place, its manifest, its injected annotations.

Without requests; `Planner` keeps what the companions of a rule share, which must not be changed: it is computed once
for each version of the rule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from app.kube.names import check_label_value
from app.kube.resources import PODS
from app.placement.model import PlacementOptions, Requirement
from app.placement.plan import contradictions, placed, requirements
from app.wire import JSON, decode_json, encode_json
from app.workloads.companions import marks
from app.workloads.model import KEY_FAILED, SYSTEM_NAMESPACE, ObjectKey, Problem, Rule, Waiting, Workload, tenant_name
from app.workloads.rules.keys import Facts, compile_key
from app.workloads.templates import bounds, problems

_RECIPE = b"berth 1"
"""Part of every hash; another one replaces every companion of every cluster."""
_NO_NODE = Waiting("NoNode", "the workload has no node yet")
ANNOTATION_LIMIT = 256 * 1024
"""Bytes of all keys and values together, as the API server counts them."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A companion that should exist. `manifest` is the whole Pod to create, without sharing its annotations.

    `defaults` are the template's own annotations, which come back where none is injected any more. `weight` is what the
    companion counts for while it has no node.
    """

    rule: ObjectKey
    namespace: str
    name: str
    host: str | None
    weight: int
    spec_hash: str
    digest: bytes
    injected: Mapping[str, str]
    defaults: Mapping[str, str]
    manifest: JSON

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name


Outcome = Planned | Waiting | Problem


class Planner:
    """Plans the companions of workloads. What those of one rule share is worked out when it is first needed."""

    def __init__(self, placement: PlacementOptions) -> None:
        self._placement = placement
        self._blueprints: dict[ObjectKey, Blueprint] = {}

    def plans(self, workload: Workload, rules: Iterable[Rule]) -> Iterator[tuple[Rule, Outcome, bool]]:
        """For each rule that matches, what should exist, and whether a key computed: that may take milliseconds."""
        facts = Facts(workload.document)
        for rule in rules:
            blueprint = self._blueprints.get(rule.key)
            if blueprint is None or blueprint.rule is not rule:
                blueprint = self._blueprints[rule.key] = Blueprint(rule, self._placement)
            yield rule, plan(blueprint, workload, facts), blueprint.computed

    def forget(self, rule: ObjectKey) -> None:
        """Free what is kept of a rule that is gone or broken."""
        self._blueprints.pop(rule, None)


def plan(blueprint: Blueprint, workload: Workload, facts: Facts) -> Outcome:
    """What should exist for a workload that the rule matches; `facts` are those of its document."""
    rule, placed = blueprint.rule, blueprint.place(workload)
    if not isinstance(placed, _Placed):
        return placed
    injected = {
        injection.annotation: text for injection in rule.injections if (text := facts.text(injection.key)) is not None
    }
    if problem := facts.fault_of(injection.key for injection in rule.injections):
        return Problem(KEY_FAILED, f"spec.workloadInfoInject: {problem}", of_workload=True)
    written = marks.annotations_of(rule, workload, spec_hash=placed.spec_hash, injected=injected, host=placed.host)
    annotations = {**blueprint.annotations, **injected, **written}
    size = _size(annotations)
    if size > ANNOTATION_LIMIT:
        text = f"the companion's annotations have {size} bytes, and the API server takes {ANNOTATION_LIMIT}"
        return Problem("AnnotationTooLarge", text, of_workload=True)
    # The tenant's namespace for a rule of the tenant, ours for one of the admin.
    namespace = workload.namespace if rule.kind == "tenant" else SYSTEM_NAMESPACE
    name = marks.companion_name(rule, workload)
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {**blueprint.labels, **marks.labels_of(rule, workload)},
        "annotations": annotations,
    }
    return Planned(
        rule=rule.key,
        namespace=namespace,
        name=name,
        host=marks.host_of(annotations),
        weight=blueprint.weight,
        spec_hash=placed.spec_hash,
        digest=marks.digest_of(injected),
        injected=injected,
        defaults=blueprint.annotations,
        manifest=PODS.body(metadata, spec=placed.spec),
    )


def _size(annotations: Mapping[str, str]) -> int:
    """Bytes as the API server counts them; no more than that where they are far from the limit."""
    most = 4 * (sum(map(len, annotations)) + sum(map(len, annotations.values())))
    if most <= ANNOTATION_LIMIT:
        return most
    return sum(len(name.encode()) + len(text.encode()) for name, text in annotations.items())


@dataclass(frozen=True, slots=True)
class _Placed:
    """The spec of a companion with its placement, on a DPU of `host` or, where that is None, on any."""

    spec: JSON
    spec_hash: str
    host: str | None = None


class Blueprint:
    """`problem` stands in the way of all companions. `computed`: a key of an injection is more than a path."""

    def __init__(self, rule: Rule, placement: PlacementOptions) -> None:
        template = decode_json(rule.template)
        wrong = problems.template_problems(template, trusted=rule.kind == "admin", policy=placement.policy)
        self.problem = Problem("InvalidTemplate", "; ".join(wrong)) if wrong else None
        metadata: JSON = {} if wrong else template.get("metadata") or {}
        spec: JSON = {} if wrong else template.get("spec") or {}
        tenant = tenant_name(rule.namespace) if rule.kind == "tenant" else None
        self._wanted = requirements(host=None, tenant=tenant, options=placement)
        if self.problem is None:
            self.problem = _contradiction(spec, self._wanted)
        self.rule, self._placement = rule, placement
        self.labels: Mapping[str, str] = metadata.get("labels") or {}
        self.annotations: Mapping[str, str] = metadata.get("annotations") or {}
        self.spec = spec if self.problem else placed(spec, self._wanted)
        self.weight = bounds.weight_of(spec)
        self._anywhere = _Placed(self.spec, _hash(rule, self._wanted))
        self.computed = any(compile_key(injection.key).path is None for injection in rule.injections)

    def place(self, workload: Workload) -> _Placed | Waiting | Problem:
        """Where the companion of this workload has to run."""
        rule, host = self.rule, workload.node_name
        if self.problem is not None:
            return self.problem
        if rule.policy != "SameNode":
            return self._anywhere
        if not host:
            return _NO_NODE
        # The node's name is the tenant's own word: it must not lead an admin's Pod to the DPUs of another tenant.
        tenant = tenant_name(workload.namespace) if rule.kind == "admin" else None
        placement = requirements(host=host, tenant=tenant, options=self._placement)
        problem = _unknown_host(host)
        if problem is None and (contradiction := _contradiction(self.spec, placement)) is not None:
            problem = replace(contradiction, of_workload=True)
        if problem is not None:
            return problem
        return _Placed(placed(self.spec, placement), _hash(rule, (*self._wanted, *placement)), host)


@lru_cache(maxsize=4096)  # one cache for all rules, of which there may be hundreds
def _unknown_host(host: str) -> Problem | None:
    """Why no DPU can be for a host of this name."""
    try:
        check_label_value(host)
    except ValueError as error:
        return Problem("InvalidHost", f"no DPU can have the label of the workload's node: {error}", of_workload=True)
    return None


def _contradiction(spec: JSON, requirements: Sequence[Requirement]) -> Problem | None:
    lines = contradictions(spec, requirements, path="spec.template.spec")
    return Problem("PlacementContradiction", "; ".join(lines)) if lines else None


def _hash(rule: Rule, requirements: Sequence[Requirement]) -> str:
    """Over all that cannot be changed in place, and nothing else: not the terms, nor what is injected."""
    facts = encode_json([[entry.key, entry.value] for entry in requirements])
    parts = (_RECIPE, rule.id.encode(), rule.policy.encode(), facts, rule.template)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
