"""What the caches keep of each object. No projection fails.

An unusable object is kept as such, because treating it as absent would delete companions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import structlog

from app.wire import JSON, encode_sorted
from app.workloads.companions.marks import Companion, companion_of
from app.workloads.documents import project_workload
from app.workloads.model import Problem, Rule, RuleKind, Workload
from app.workloads.rules.parsing import RuleError, parse_rule

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoredWorkload:
    """A Workload object; `workload` is None where it cannot be used, and `problem` says why.

    `status` is the digest of what its status says.
    """

    workload: Workload | None
    status: bytes
    problem: str = ""

    @property
    def finding(self) -> Problem:
        """What a Workload that cannot be used means for each of its companions."""
        return Problem("InvalidWorkload", f"the Workload cannot be used: {self.problem}", of_workload=True)


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A rule object; `rule` is None where it is broken, and `problems` say why."""

    kind: RuleKind
    generation: int
    rule: Rule | None
    problems: tuple[str, ...]
    status: JSON

    @property
    def finding(self) -> Problem:
        """What a broken rule means for each of its companions."""
        return Problem("InvalidRule", "; ".join(self.problems))


def status_digest(rules: JSON) -> bytes:
    """Eight bytes that stand for `status.rules` of a Workload; nothing for an empty one."""
    present = {kind: entries for kind, entries in rules.items() if entries}
    return hashlib.blake2b(encode_sorted(present), digest_size=8).digest() if present else b""


def stored_workload(obj: JSON) -> StoredWorkload:
    metadata = obj["metadata"]
    status = obj.get("status") or {}
    workload, problem = None, ""
    try:
        workload = project_workload(obj)
    except ValueError as error:
        problem = str(error)
        log.warning("workload skipped", namespace=metadata.get("namespace"), name=metadata.get("name"), error=problem)
    return StoredWorkload(workload, status_digest(status.get("rules") or {}), problem)


def stored_rule(obj: JSON, kind: RuleKind) -> StoredRule:
    metadata = obj["metadata"]
    generation, status = metadata.get("generation") or 0, obj.get("status") or {}
    try:
        return StoredRule(kind, generation, parse_rule(obj, kind=kind), (), status)
    except RuleError as error:
        return StoredRule(kind, generation, None, error.problems, status)


def stored_companion(pod: JSON) -> Companion | None:
    try:
        return companion_of(pod)
    except ValueError as error:
        metadata = pod["metadata"]
        log.warning(
            "pod with our label is left alone",
            namespace=metadata.get("namespace"),
            name=metadata.get("name"),
            error=str(error),
        )
        return None
