"""Enforces ResourceQuotas on writes: refuses an object beyond a quota, and updates the used amounts in the statuses.

A real API server refuses and counts up; the quota controller initializes the counts and counts down. Here both happen
with the write, so that quotas also hold in a cluster without stand-ins.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from app.devtools.sandbox.api.failures import forbidden
from app.devtools.sandbox.kinds.quotas import (
    charged,
    counted,
    counted_names,
    counted_resources,
    hard,
    in_scope,
    refusal,
    usage,
    used,
)

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.devtools.sandbox.kinds.quotas import Usage
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

QUOTAS = ("", "resourcequotas")


def check_room(state: ClusterState, resource: ApiResource, obj: JSON) -> None:
    """Raises StatusError 403 for a new object that a quota of its namespace has no room for."""
    added = usage(*resource.key, obj)
    for quota in _quotas(state, resource, obj):
        problem = refusal(quota, added) if in_scope(quota, obj) else ""
        if problem:
            raise forbidden(resource.group, resource.plural, obj["metadata"].get("name") or "", problem)


def account(state: ClusterState, resource: ApiResource, before: JSON | None, after: JSON | None) -> None:
    """Count what a write has changed: a new object, one that is gone, a Pod that has ended."""
    for quota in _quotas(state, resource, after or before or {}):
        change = Counter(_within(quota, resource, after))
        change.subtract(_within(quota, resource, before))
        now = charged(quota, change)
        if now != used(quota):
            _write(state, quota, {**quota["status"], "used": now})


def begin_quota(state: ClusterState, quota: JSON) -> JSON:
    """The quota with everything counted that it bounds; the same where that is done."""
    if "status" in quota and hard(quota) == (quota["spec"].get("hard") or {}):
        return quota
    namespace = quota["metadata"]["namespace"]
    objects = {key: state.storage.list(key, namespace) for key in counted_resources(quota)}
    return _write(state, quota, counted(quota, objects))


def _quotas(state: ClusterState, resource: ApiResource, obj: JSON) -> list[JSON]:
    """Those of the object's namespace that bound its kind."""
    namespace = obj["metadata"].get("namespace") if resource.namespaced else ""
    names = counted_names(*resource.key)
    found = state.storage.list(QUOTAS, namespace) if namespace else []
    return [quota for quota in found if any(name in hard(quota) for name in names)]


def _within(quota: JSON, resource: ApiResource, obj: JSON | None) -> Usage:
    return usage(*resource.key, obj) if obj is not None and in_scope(quota, obj) else {}


def _write(state: ClusterState, quota: JSON, status: JSON) -> JSON:
    return state.storage.update(QUOTAS, {**quota, "metadata": dict(quota["metadata"]), "status": status})
