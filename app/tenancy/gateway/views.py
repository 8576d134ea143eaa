"""What the gateway keeps of rules and Pods to show them to their tenants: small, immutable, comparable. Pure.

A view shows nothing of another tenant, and none of Berth's own marks but the name of the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import structlog

from app.kube.names import domain_above
from app.tenancy.gateway.cluster import cluster_of
from app.tenancy.messages import canonical, rule_message
from app.tenancy.model import Tenant
from app.tenancy.proto import resource_pb
from app.tenancy.tenants.objects import project_tenant
from app.wire import JSON
from app.workloads.companions.marks import is_bound, size_of
from app.workloads.model import COMPANION, RESERVED_DOMAINS, RULE_NAME, TENANT_NAMESPACE_PREFIX, WORKLOAD
from app.workloads.rules.problems import computed_keys, match_keys
from app.workloads.templates.terms import weight_of

log = structlog.get_logger(__name__)

BY_NAMESPACE = "namespace"
"""The index of the caches by namespace."""


@dataclass(frozen=True, slots=True)
class View:
    """One object as its tenant sees it: `message` is the serialized message of its watch.

    Of a rule `keys` are those that compute. Of a Pod that is no companion `size` are the bytes of what its author says,
    `pending` those of one without a node, and `weight` what that counts for.
    """

    namespace: str
    name: str
    message: bytes
    size: int = field(default=0, compare=False)
    pending: int = field(default=0, compare=False)
    weight: int = field(default=0, compare=False)
    keys: frozenset[str] = field(default=frozenset(), compare=False)


def known_tenant(obj: JSON) -> Tenant | None:
    """The tenant, or None for one that cannot be read: its callers are refused rather than judged by an old version."""
    try:
        return project_tenant(obj).at(cluster_of(obj))
    except ValueError as error:
        log.warning("Tenant is not usable; its callers are refused", tenant=obj["metadata"]["name"], problem=str(error))
        return None


def view_rule(obj: JSON) -> View | None:
    """A stored tenant rule with its status."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    message = rule_message(obj).SerializeToString(deterministic=True)
    keys = computed_keys(match_keys(obj.get("spec") or {}))
    return View(metadata["namespace"], metadata["name"], message, keys=keys)


def view_pod(obj: JSON) -> View | None:
    """A companion or a Pod of the resource service, in a tenant's namespace; None elsewhere."""
    metadata = obj["metadata"]
    namespace: str = metadata["namespace"]
    if not namespace.startswith(TENANT_NAMESPACE_PREFIX):
        return None
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    companion = COMPANION in (metadata.get("labels") or {})
    annotations = metadata.get("annotations") or {}
    summary = resource_pb.PodSummary(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        origin=resource_pb.ORIGIN_RULE if companion else resource_pb.ORIGIN_RESOURCE,
        phase=status.get("phase", ""),
        node_name=spec.get("nodeName", ""),
        ready=any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in _conditions(status)),
    )
    if companion:
        summary.rule = annotations.get(RULE_NAME, "")
        summary.workload_id = annotations.get(WORKLOAD, "").partition("/")[2]
        summary.manifest = canonical(_manifest(metadata, spec))
    message = summary.SerializeToString(deterministic=True)
    size = 0 if companion else size_of(obj)
    if companion or is_bound(obj):
        return View(namespace, metadata["name"], message, size)
    return View(namespace, metadata["name"], message, size, pending=size, weight=weight_of(spec))


def _conditions(status: JSON) -> list[JSON]:
    conditions = status.get("conditions")
    return [entry for entry in conditions if isinstance(entry, dict)] if isinstance(conditions, list) else []


def _manifest(metadata: JSON, spec: JSON) -> JSON:
    shown: JSON = {"name": metadata["name"]}
    if labels := public(metadata.get("labels")):
        shown["labels"] = labels
    if annotations := public(metadata.get("annotations")):
        shown["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": shown, "spec": spec}


def public(entries: Any) -> dict[str, str]:
    """Labels or annotations without Berth's own, but with the name of the rule."""
    if not isinstance(entries, dict):
        return {}
    return {key: value for key, value in entries.items() if key == RULE_NAME or not domain_above(key, RESERVED_DOMAINS)}
