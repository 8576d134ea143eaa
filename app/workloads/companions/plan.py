"""From a workload and a rule to the companion that should exist: its place, its manifest, its injected annotations.

Without requests; `Planner` keeps what the companions of a rule share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.kube.resources import PODS
from app.placement.model import PlacementOptions
from app.wire import JSON
from app.workloads.companions import marks
from app.workloads.companions.blueprint import Blueprint, Placed
from app.workloads.model import KEY_FAILED, SYSTEM_NAMESPACE, ObjectKey, Problem, Rule, Waiting, Workload
from app.workloads.rules.keys import Facts

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
    if not isinstance(placed, Placed):
        return placed
    injected = {one.annotation: text for one in rule.injections if (text := facts.text(one.key)) is not None}
    if problem := facts.fault_of(one.key for one in rule.injections):
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
