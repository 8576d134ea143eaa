"""What every companion of one version of a rule shares: its template, checked, where it has to run, and its hash.

Pure. Computed once for each version. What is shared must not be changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from app.kube.names import check_label_value
from app.placement.model import PlacementOptions, Requirement
from app.placement.plan import contradictions, placed, requirements
from app.wire import JSON, decode_json, encode_json
from app.workloads.model import Problem, Rule, Waiting, Workload, tenant_name
from app.workloads.rules.keys import compile_key
from app.workloads.templates import problems, terms

_RECIPE = b"berth 1"
"""Part of every hash; another one replaces every companion of every cluster."""
_NO_NODE = Waiting("NoNode", "the workload has no node yet")


@dataclass(frozen=True, slots=True)
class Placed:
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
        self.weight = terms.weight_of(spec)
        self._anywhere = Placed(self.spec, _hash(rule, self._wanted))
        self.computed = any(compile_key(one.key).path is None for one in rule.injections)

    def place(self, workload: Workload) -> Placed | Waiting | Problem:
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
        wanted = requirements(host=host, tenant=tenant, options=self._placement)
        problem = _unknown_host(host)
        if problem is None and (found := _contradiction(self.spec, wanted)) is not None:
            problem = replace(found, of_workload=True)
        if problem is not None:
            return problem
        return Placed(placed(self.spec, wanted), _hash(rule, (*self._wanted, *wanted)), host)


@lru_cache(maxsize=4096)  # one cache for all rules, of which there may be hundreds
def _unknown_host(host: str) -> Problem | None:
    """Why no DPU can be for a host of this name."""
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
