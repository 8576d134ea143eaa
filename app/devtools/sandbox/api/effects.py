"""What a write means for other objects: quotas count it, a CustomResourceDefinition brings and takes its resources.

A real API server refuses beyond a quota and counts up; the quota controller initializes the counts and counts down.
Here both happen with the write, so that quotas also hold in a cluster without stand-ins.

A deleted definition waits until its objects are gone, and objects with finalizers decide how long that takes.
Meanwhile the objects can be read and changed; new ones are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.devtools.sandbox.api.failures import forbidden
from app.devtools.sandbox.kinds.builtin import CRDS
from app.devtools.sandbox.kinds.crds import establish, resources_of
from app.devtools.sandbox.kinds.quotas import (
    bounded_resources,
    bounds_of,
    charged,
    counted,
    hard,
    in_scope,
    refusal,
    used,
)
from app.devtools.sandbox.kinds.quotausage import MEASURED, usage
from app.devtools.sandbox.merge.apply import track_update
from app.text import stamp

if TYPE_CHECKING:
    from app.devtools.sandbox.api.call import Call
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.devtools.sandbox.kinds.quotausage import Usage
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

_QUOTAS = ("", "resourcequotas")
_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that a definition gets when its deletion begins, and loses with its last object."""


def check_lasting(state: ClusterState, call: Call, name: str) -> None:
    """Raises StatusError 403 for a new object of a kind that is on its way out."""
    definition = _definition(state, call.resource)
    if definition is not None and definition["metadata"].get("deletionTimestamp"):
        text = "create not allowed while custom resource definition is terminating"
        raise forbidden(call.resource.group, call.resource.plural, name, text)


def check_room(state: ClusterState, resource: ApiResource, obj: JSON, old: JSON | None = None) -> None:
    """Raises StatusError 403 for a new object, or a changed one, that a quota of its namespace has no room for."""
    for quota in _quotas(state, resource, obj):
        problem = refusal(quota, resource.key, obj, old) if in_scope(quota, obj) else ""
        if problem:
            raise forbidden(resource.group, resource.plural, obj["metadata"].get("name") or "", problem)


def after_write(state: ClusterState, resource: ApiResource, old: JSON | None, stored: JSON) -> JSON:
    """What follows a write at once, and the object after it.

    Quotas count a new object (`old` None) and one that counts for more or less than before. A definition's resources
    are served, and its status says so; a new quota is counted.
    """
    if old is None or (resource.key in MEASURED and _may_count_differently(old, stored)):
        _account(state, resource, old, stored)
    if resource.key == _QUOTAS:
        return _begin_quota(state, stored)
    if resource.kind != "CustomResourceDefinition":
        return stored
    state.registry.replace_custom(stored["metadata"]["name"], resources_of(stored))
    status = establish(stored, state.storage.now())
    if status == stored.get("status"):
        return stored
    served = {**stored, "metadata": dict(stored["metadata"]), "status": status}
    served = track_update(
        stored,
        served,
        manager="kube-apiserver",
        api_version=resource.api_version,
        now=state.storage.now(),
        subresource="status",
    )
    return state.storage.update(resource.key, served)


def end_definition(state: ClusterState, marked: JSON) -> JSON:
    """Begin the end of a definition that carries its deletion time, and return it as it is answered with."""
    metadata = marked["metadata"]
    finalizers = metadata.get("finalizers") or []
    if _CLEANUP in finalizers:
        return state.storage.update(CRDS.key, marked)
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": state.storage.now(),
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
    }
    status = marked.get("status") or {}
    ending = {
        **marked,
        "metadata": {**metadata, "finalizers": [*finalizers, _CLEANUP]},
        "status": {**status, "conditions": [*(status.get("conditions") or []), condition]},
    }
    stored = state.storage.update(CRDS.key, ending)
    spec = stored["spec"]
    key = (spec["group"], spec["names"]["plural"])
    for obj in state.storage.list(key):
        _end_object(state, key, obj)
    _release(state, stored)
    return stored


def after_removal(state: ClusterState, resource: ApiResource, final: JSON) -> None:
    """An object has left storage: it counts no more, and what waited for that is let go."""
    _account(state, resource, final, None)
    if resource.kind == CRDS.kind and resource.key == CRDS.key:
        spec = final["spec"]
        state.storage.drop((spec["group"], spec["names"]["plural"]))
        state.registry.replace_custom(final["metadata"]["name"], [])
        return
    definition = _definition(state, resource)
    if definition is not None and definition["metadata"].get("deletionTimestamp"):
        _release(state, definition)


def _definition(state: ClusterState, resource: ApiResource) -> JSON | None:
    if not resource.custom:
        return None
    return state.storage.get(CRDS.key, "", f"{resource.plural}.{resource.group}")


def _end_object(state: ClusterState, key: tuple[str, str], obj: JSON) -> None:
    metadata = obj["metadata"]
    if not metadata.get("finalizers"):
        state.storage.delete(key, metadata.get("namespace") or "", metadata["name"])
    elif not metadata.get("deletionTimestamp"):
        moment = stamp()
        ending = {**metadata, "deletionTimestamp": moment, "deletionGracePeriodSeconds": 0}
        if "generation" in ending:
            ending["generation"] += 1
        state.storage.update(key, {**obj, "metadata": ending})


def _release(state: ClusterState, definition: JSON) -> None:
    """Delete the definition if none of its objects is left and it has no other finalizer."""
    spec, metadata = definition["spec"], definition["metadata"]
    if state.storage.list((spec["group"], spec["names"]["plural"])):
        return
    others = [name for name in metadata.get("finalizers") or [] if name != _CLEANUP]
    kept = {name: value for name, value in metadata.items() if name != "finalizers"}
    if others:
        if others != metadata.get("finalizers"):
            state.storage.update(CRDS.key, {**definition, "metadata": {**kept, "finalizers": others}})
        return
    final = state.storage.delete(CRDS.key, "", metadata["name"], last={**definition, "metadata": kept})
    after_removal(state, CRDS, final)


def _may_count_differently(old: JSON, new: JSON) -> bool:
    phases = [(one.get("status") or {}).get("phase") for one in (old, new)]
    return phases[0] != phases[1] or old.get("spec") != new.get("spec")


def _account(state: ClusterState, resource: ApiResource, before: JSON | None, after: JSON | None) -> None:
    """Count what a write has changed: a new object, one that is gone, one that counts for more or less."""
    for quota in _quotas(state, resource, after or before or {}):
        now = charged(quota, _within(quota, resource, before), _within(quota, resource, after))
        if now != used(quota):
            _write(state, quota, {**quota["status"], "used": now})


def _begin_quota(state: ClusterState, quota: JSON) -> JSON:
    """The quota with everything counted that it bounds; the same where that is done."""
    if "status" in quota and hard(quota) == (quota["spec"].get("hard") or {}):
        return quota
    namespace = quota["metadata"]["namespace"]
    objects = {key: state.storage.list(key, namespace) for key in bounded_resources(quota)}
    return _write(state, quota, counted(quota, objects))


def _quotas(state: ClusterState, resource: ApiResource, obj: JSON) -> list[JSON]:
    """Those of the object's namespace that bound its kind."""
    namespace = obj["metadata"].get("namespace") if resource.namespaced else ""
    found = state.storage.list(_QUOTAS, namespace) if namespace else []
    return [quota for quota in found if bounds_of(quota, resource.key)]


def _within(quota: JSON, resource: ApiResource, obj: JSON | None) -> Usage:
    return usage(resource.key, obj, bounds_of(quota, resource.key)) if obj is not None and in_scope(quota, obj) else {}


def _write(state: ClusterState, quota: JSON, status: JSON) -> JSON:
    return state.storage.update(_QUOTAS, {**quota, "metadata": dict(quota["metadata"]), "status": status})
