"""What the gateway keeps of rules and Pods to show them to their tenants: small, immutable, comparable. Pure.

A view shows nothing of another tenant, and none of Berth's own marks but the name of the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.tenancy.messages import pod_summary, rule_message
from app.wire import JSON
from app.workloads.companions.marks import is_bound, size_of
from app.workloads.model import COMPANION, TENANT_NAMESPACE_PREFIX
from app.workloads.rules.problems import computed_keys, match_keys
from app.workloads.templates.terms import weight_of

BY_NAMESPACE = "namespace"
"""The index of the caches by namespace."""
Keys = frozenset[str]
"""Of the terms of a rule, those that are more than a path of names: each computes."""


@dataclass(frozen=True, slots=True)
class View:
    """One object as its tenant sees it: `message` is the serialized message of its watch.

    Of a rule `keys` are those that compute. Of a Pod that is not a companion `size` are the bytes of what its author
    says, `pending` those of one without a node, and `weight` what that counts for.
    """

    namespace: str
    name: str
    message: bytes
    size: int = field(default=0, compare=False)
    pending: int = field(default=0, compare=False)
    weight: int = field(default=0, compare=False)
    keys: Keys = field(default=frozenset(), compare=False)


def view_rule(obj: JSON) -> View | None:
    """A stored tenant rule with its status."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    message = rule_message(obj).SerializeToString(deterministic=True)
    return View(metadata["namespace"], metadata["name"], message, keys=keys_of(obj.get("spec") or {}))


def keys_of(spec: JSON) -> Keys:
    """The keys of a rule's terms that compute, and so count."""
    return computed_keys(match_keys(spec))


def view_pod(obj: JSON) -> View | None:
    """A companion or a Pod of the resource service, in a tenant's namespace; None elsewhere."""
    metadata = obj["metadata"]
    namespace: str = metadata["namespace"]
    if not namespace.startswith(TENANT_NAMESPACE_PREFIX):
        return None
    companion = COMPANION in (metadata.get("labels") or {})
    message = pod_summary(obj).SerializeToString(deterministic=True)
    size = 0 if companion else size_of(obj)
    if companion or is_bound(obj):
        return View(namespace, metadata["name"], message, size)
    return View(namespace, metadata["name"], message, size, pending=size, weight=weight_of(obj.get("spec") or {}))
