"""Handles the effects of a removal from storage: a CustomResourceDefinition is removed after the last of its objects.

A deleted definition waits until its objects are gone, and objects with finalizers decide how long that takes.
Meanwhile the objects can be read and changed; new ones are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.devtools.sandbox.api.failures import forbidden
from app.devtools.sandbox.api.quotas import account
from app.devtools.sandbox.kinds.builtin import CRDS
from app.text import stamp

if TYPE_CHECKING:
    from app.devtools.sandbox.api.call import Call
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that a definition gets when its deletion begins, and loses with its last object."""


def check_lasting(state: ClusterState, call: Call, name: str) -> None:
    """Raises StatusError 403 for a new object of a kind that is on its way out."""
    definition = _definition(state, call.resource)
    if definition is not None and definition["metadata"].get("deletionTimestamp"):
        text = "create not allowed while custom resource definition is terminating"
        raise forbidden(call.resource.group, call.resource.plural, name, text)


def end_definition(state: ClusterState, marked: JSON) -> JSON:
    """Begin the end of a definition that carries its deletion time, and return it as it is answered with."""
    metadata = marked["metadata"]
    finalizers = metadata.get("finalizers") or []
    if CLEANUP in finalizers:
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
        "metadata": {**metadata, "finalizers": [*finalizers, CLEANUP]},
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
    account(state, resource, final, None)
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
    others = [name for name in metadata.get("finalizers") or [] if name != CLEANUP]
    kept = {name: value for name, value in metadata.items() if name != "finalizers"}
    if others:
        if others != metadata.get("finalizers"):
            state.storage.update(CRDS.key, {**definition, "metadata": {**kept, "finalizers": others}})
        return
    final = state.storage.delete(CRDS.key, "", metadata["name"], last={**definition, "metadata": kept})
    after_removal(state, CRDS, final)
