"""From a workload and a rule to the companion that should exist: its place, its manifest, its injected annotations.

Pure. What depends on the rule alone is computed once for each version of it, in a `Blueprint`. Blueprints are shared,
so their contents must not be changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from app.kube.names import check_label_value
from app.kube.resources import PODS
from app.placement.model import DPU_OF_HOST, PlacementOptions, Requirement
from app.placement.plan import contradictions, placed, requirements
from app.wire import JSON, decode_json, encode_json
from app.workloads.companions.marks import (
    annotations_of,
    companion_name,
    digest_of,
    host_of,
    injected_mark,
    labels_of,
)
from app.workloads.matching.facts import Facts
from app.workloads.model import (
    INJECTED,
    SYSTEM_NAMESPACE,
    ObjectKey,
    Problem,
    Rule,
    Waiting,
    Workload,
    tenant_name,
)
from app.workloads.rules.keys import Key, compile_key
from app.workloads.templates.problems import template_problems
from app.workloads.templates.terms import weight_of

ANNOTATION_LIMIT = 256 * 1024
"""Bytes of all keys and values together, as the API server counts them."""
_RECIPE = b"berth 1"
"""Part of every hash; another one makes every companion of every cluster anew."""


@dataclass(frozen=True, slots=True)
class CompanionOptions:
    system_namespace: str = SYSTEM_NAMESPACE
    placement: PlacementOptions = field(default_factory=PlacementOptions)


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
_NO_NODE = Waiting("NoNode", "the workload has no node yet")


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What every companion of one version of a rule shares. `problem` stands in the way of all of them.

    `wanted` and `spec` hold the placement that does not depend on the workload.
    """

    rule: Rule
    options: CompanionOptions
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: JSON
    weight: int
    wanted: tuple[Requirement, ...]
    spec_hash: str
    injections: tuple[tuple[str, Key], ...]
    problem: Problem | None


def blueprint_of(rule: Rule, options: CompanionOptions) -> Blueprint:
    """Works out the shared part, the checks of the template included."""
    template = decode_json(rule.template)
    problems = template_problems(template, trusted=rule.kind == "admin", policy=options.placement.policy)
    problem = Problem("InvalidTemplate", "; ".join(problems)) if problems else None
    metadata: JSON = {} if problem else template.get("metadata") or {}
    spec: JSON = {} if problem else template.get("spec") or {}
    tenant = tenant_name(rule.namespace) if rule.kind == "tenant" else None
    wanted = requirements(host=None, tenant=tenant, options=options.placement)
    if problem is None:
        problem = _contradiction(spec, wanted)
    return Blueprint(
        rule=rule,
        options=options,
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        spec=spec if problem else placed(spec, wanted),
        weight=weight_of(spec),
        wanted=wanted,
        spec_hash=_hash(rule, wanted),
        injections=tuple((one.annotation, compile_key(one.key)) for one in rule.injections),
        problem=problem,
    )


def plan(blueprint: Blueprint, workload: Workload, facts: Facts) -> Outcome:
    """What should exist for a workload that the rule matches; `facts` are those of its document."""
    rule = blueprint.rule
    spec, spec_hash, host = blueprint.spec, blueprint.spec_hash, None
    if blueprint.problem is not None:
        return blueprint.problem
    if rule.policy == "SameNode":
        host = workload.node_name
        if not host:
            return _NO_NODE
        # The node's name is the tenant's own word: it must not lead an admin's Pod to the DPUs of another tenant.
        tenant = tenant_name(workload.namespace) if rule.kind == "admin" else None
        wanted = requirements(host=host, tenant=tenant, options=blueprint.options.placement)
        problem = _unknown_host(host)
        if problem is None and (found := _contradiction(spec, wanted)) is not None:
            problem = replace(found, of_workload=True)
        if problem is not None:
            return problem
        spec, spec_hash = placed(spec, wanted), _hash(rule, (*blueprint.wanted, *wanted))
    injected = {name: text for name, key in blueprint.injections if (text := facts.text(key)) is not None}
    annotations = {**blueprint.annotations, **injected, **annotations_of(rule, workload, spec_hash=spec_hash)}
    annotations[INJECTED] = injected_mark(injected)
    if host is not None:
        annotations[DPU_OF_HOST] = host
    size = _size(annotations)
    if size > ANNOTATION_LIMIT:
        text = f"the companion's annotations have {size} bytes, and the API server takes {ANNOTATION_LIMIT}"
        return Problem("AnnotationTooLarge", text, of_workload=True)
    # The tenant's namespace for a rule of the tenant, ours for one of the admin.
    namespace = workload.namespace if rule.kind == "tenant" else blueprint.options.system_namespace
    name = companion_name(rule, workload)
    manifest = {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**blueprint.labels, **labels_of(rule, workload)},
            "annotations": annotations,
        },
        "spec": spec,
    }
    return Planned(
        rule=rule.key,
        namespace=namespace,
        name=name,
        host=host_of(annotations),
        weight=blueprint.weight,
        spec_hash=spec_hash,
        digest=digest_of(injected),
        injected=injected,
        defaults=blueprint.annotations,
        manifest=manifest,
    )


def _size(annotations: Mapping[str, str]) -> int:
    """Bytes as the API server counts them; no more than that where they are far from the limit."""
    most = 4 * (sum(map(len, annotations)) + sum(map(len, annotations.values())))
    if most <= ANNOTATION_LIMIT:
        return most
    return sum(len(name.encode()) + len(text.encode()) for name, text in annotations.items())


@lru_cache(maxsize=4096)  # one for all rules, of which there may be hundreds
def _unknown_host(host: str) -> Problem | None:
    try:
        check_label_value(host)
    except ValueError as error:
        return Problem("InvalidHost", f"no DPU can have the label of the workload's node: {error}", of_workload=True)
    return None


def _contradiction(spec: JSON, wanted: Sequence[Requirement]) -> Problem | None:
    lines = contradictions(spec, wanted, path="spec.template.spec")
    return Problem("PlacementContradiction", "; ".join(lines)) if lines else None


def _hash(rule: Rule, wanted: Sequence[Requirement]) -> str:
    """Over all that cannot be changed in place, and nothing else: not the terms, nor what is injected."""
    facts = encode_json([[one.key, one.value] for one in wanted])
    parts = (_RECIPE, rule.id.encode(), rule.policy.encode(), facts, rule.template)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
