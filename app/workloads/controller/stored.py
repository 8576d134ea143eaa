"""What the caches keep of each object. No projection of a store fails.

An unusable object is kept as such, because treating it as absent would delete companions. A workload is kept as one
compact document in the form that rules see: there is one for every Pod of every tenant, so the values that many share
(namespaces, node names) are one string, and the rest is bytes.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from typing import Any

import structlog

from app.kube.conditions import status_of
from app.kube.names import check_dns_label
from app.wire import JSON, encode_sorted
from app.workloads.companions.marks import Companion, companion_of
from app.workloads.model import (
    ORCHESTRATOR,
    RESOURCE_TYPE,
    TENANT_NAMESPACE_PREFIX,
    Problem,
    Rule,
    RuleKind,
    Workload,
    workload_name,
)
from app.workloads.rules.problems import RuleError, parse_rule

log = structlog.get_logger(__name__)

MAX_DEPTH = 16
"""Levels below `state.extra`; keys are evaluated and values compared recursively."""

_MAPS = ("labels", "annotations")


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
    status = status_of(obj)
    workload, problem = None, ""
    try:
        workload = project_workload(obj)
    except ValueError as error:
        problem = str(error)
        log.warning("workload skipped", namespace=metadata.get("namespace"), name=metadata.get("name"), error=problem)
    return StoredWorkload(workload, status_digest(status.get("rules") or {}), problem)


def stored_rule(obj: JSON, kind: RuleKind) -> StoredRule:
    metadata = obj["metadata"]
    generation, status = metadata.get("generation") or 0, status_of(obj)
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


def project_workload(obj: JSON) -> Workload:
    """The kept form of a stored Workload object; ValueError says what makes it unusable.

    The document has all of `metadata` and `state` that rules may count on: `ready` (false where it is not given),
    `extra.labels` and `extra.annotations` (empty where there are none), and `nodeName` only once there is a node, so
    that Exists holds only then. Fields that no version of the API has are left out.
    """
    namespace, name = _text(_map(obj, "metadata"), "namespace"), _text(_map(obj, "metadata"), "name")
    if not namespace.startswith(TENANT_NAMESPACE_PREFIX):
        raise ValueError(f"a Workload belongs into the namespace of a tenant, not {namespace!r}")
    spec = _map(obj, "spec")
    metadata, state = _map(spec, "metadata"), _map(spec, "state")
    workload_id = check_dns_label(_text(metadata, "id"))
    if name != workload_name(workload_id):
        raise ValueError(f"the Workload of id {workload_id!r} must be named {workload_name(workload_id)}, not {name!r}")
    node_name = sys.intern(_text(state, "nodeName"))
    document = {"metadata": _metadata(metadata), "state": _state(state)}
    return Workload(sys.intern(namespace), name, workload_id, node_name, encode_sorted(document))


def _metadata(metadata: JSON) -> JSON:
    resource_type = _text(metadata, "resourceType") or RESOURCE_TYPE
    if resource_type != RESOURCE_TYPE:
        raise ValueError(f"metadata.resourceType: {resource_type!r} is unknown: only {RESOURCE_TYPE}")
    return {
        "id": metadata["id"],
        "orchestrator": _text(metadata, "orchestrator") or ORCHESTRATOR,
        "resourceType": resource_type,
        "resourceName": _text(metadata, "resourceName"),
        "resourceNamespace": _text(metadata, "resourceNamespace"),
    }


def _state(state: JSON) -> JSON:
    ready = state.get("ready") or False
    if not isinstance(ready, bool):
        raise ValueError("state.ready: must be true or false")  # noqa: TRY004 - the promise is ValueError
    extra = dict(_map(state, "extra"))
    for name in _MAPS:
        extra[name] = _map(extra, name)
        if not all(isinstance(value, str) for value in extra[name].values()):
            raise ValueError(f"state.extra.{name}: every value must be a string")
    _check_depth(extra)
    node_name = _text(state, "nodeName")
    return {"ready": ready, "extra": extra} | ({"nodeName": node_name} if node_name else {})


def _check_depth(extra: JSON) -> None:
    level: list[Any] = [extra]
    for _ in range(MAX_DEPTH):
        level = [
            part
            for item in level
            if isinstance(item, dict | list)
            for part in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise ValueError(f"state.extra: nested too deeply: at most {MAX_DEPTH} levels")


def _map(parent: Any, name: str) -> JSON:
    value = parent.get(name) if isinstance(parent, dict) else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name}: must be an object")  # noqa: TRY004 - the promise is ValueError
    return value


def _text(parent: JSON, name: str) -> str:
    value = parent.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name}: must be a string")  # noqa: TRY004 - the promise is ValueError
    return value
