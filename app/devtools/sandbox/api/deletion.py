"""DELETE: preconditions, admission, grace periods and finalizers, for one object or a selection.

A Pod on a node keeps its object until its kubelet confirms with a second deletion at grace period 0.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from app.devtools.sandbox.api.effects import after_removal, end_definition
from app.devtools.sandbox.api.failures import bad_request, conflict, failure, success
from app.devtools.sandbox.api.reading import stored
from app.devtools.sandbox.kinds import admissible
from app.devtools.sandbox.kinds.builtin import CRDS
from app.text import stamp

if TYPE_CHECKING:
    from app.devtools.sandbox.api.call import Call
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

_POLICIES = ("Background", "Foreground", "Orphan")
_POLICY_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
_LEAVES_DEPENDENTS = ("batch/v1", "Job")
_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_RETURN_OBJECT = frozenset({
    "Pod", "Service", "ServiceAccount", "ResourceQuota", "PersistentVolumeClaim", "ResourceClaim",
    "ResourceClaimTemplate", "DeviceClass", "ResourceSlice",
})  # fmt: skip


def check_options(options: JSON) -> None:
    """Raises StatusError for DeleteOptions that make no sense."""
    policy = options.get("propagationPolicy")
    if policy not in (None, "", *_POLICIES):
        supported = ", ".join(f'"{known}"' for known in (*_POLICIES, "nil"))
        text = f'propagationPolicy: Unsupported value: "{policy}": supported values: {supported}'
        raise failure(422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: {text}')
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise bad_request("DeleteOptions: gracePeriodSeconds has to be an integer")
    preconditions = options.get("preconditions")
    if preconditions is not None and not isinstance(preconditions, dict):
        raise bad_request("DeleteOptions: preconditions have to be an object")


async def delete(state: ClusterState, call: Call, options: JSON) -> tuple[JSON, bool]:
    """Begin or finish the deletion of the call's object.

    Returns what to answer with, and whether the object is gone.
    """
    resource = call.resource
    old = stored(state, call)
    _check_preconditions(call, old, options.get("preconditions") or {})
    if (old["apiVersion"], old["kind"]) == _LEAVES_DEPENDENTS and not options.get("propagationPolicy"):
        call.warnings.append(_WARNING)
    await admissible.admit_delete(state, call, old, options)
    # Webhooks took their time: the object may have changed or gone.
    old = stored(state, call)
    _check_preconditions(call, old, options.get("preconditions") or {})
    new = _marked(old, options)
    metadata = new["metadata"]
    waits = bool(metadata.get("finalizers")) or bool(metadata.get("deletionGracePeriodSeconds"))
    if resource.kind == "Namespace" and not resource.custom:
        # The first deletion only marks a namespace, also one that nothing holds.
        waits = waits or bool((new.get("spec") or {}).get("finalizers")) or not old["metadata"].get("deletionTimestamp")
        new["status"] = {**new.get("status", {}), "phase": "Terminating"}
    elif resource.key == CRDS.key:
        waits = True
    if call.dry_run:
        return (new, False) if waits else (_answer(call, old), True)
    if waits:
        if new == old:
            return old, False
        if resource.key == CRDS.key:
            return end_definition(state, new), False
        return state.storage.update(resource.key, new), False
    final = state.storage.delete(resource.key, call.namespace, call.name)
    after_removal(state, resource, final)
    return _answer(call, final), True


def _marked(old: JSON, options: JSON) -> JSON:
    """The object as it waits for its end: deletion time, remaining grace and the finalizers of the policy."""
    metadata = dict(old["metadata"])
    finalizers = [name for name in metadata.get("finalizers") or [] if name not in _POLICY_FINALIZERS.values()]
    policy = options.get("propagationPolicy") or _default_policy(old)
    if policy in _POLICY_FINALIZERS:
        finalizers.append(_POLICY_FINALIZERS[policy])
    elif not policy:
        finalizers = list(metadata.get("finalizers") or [])
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    grace = _grace(old, options)
    known = metadata.get("deletionGracePeriodSeconds")
    if not metadata.get("deletionTimestamp") or (known is not None and grace < known):
        moment = datetime.now(UTC) + timedelta(seconds=grace)
        if not metadata.get("deletionTimestamp") or grace:
            metadata["deletionTimestamp"] = stamp(moment)
        metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata and not old["metadata"].get("deletionTimestamp"):
            metadata["generation"] += 1
    return {**old, "metadata": metadata}


def _default_policy(old: JSON) -> str:
    """What becomes of dependents where the request does not say it: Jobs leave their Pods, unless it is decided."""
    decided = set(old["metadata"].get("finalizers") or []) & set(_POLICY_FINALIZERS.values())
    return "Orphan" if (old["apiVersion"], old["kind"]) == _LEAVES_DEPENDENTS and not decided else ""


def _grace(obj: JSON, options: JSON) -> int:
    """Seconds that a Pod on a node still gets; everything else ends at once."""
    if obj["kind"] != "Pod":
        return 0
    spec = obj["spec"]
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    grace = spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return int(grace) if grace >= 0 else 1


def _check_preconditions(call: Call, old: JSON, preconditions: JSON) -> None:
    words = {"uid": ("UID", "deleted and then recreated"), "resourceVersion": ("ResourceVersion", "modified")}
    for field, (word, change) in words.items():
        wanted, actual = preconditions.get(field), old["metadata"][field]
        if wanted is not None and wanted != actual:
            text = (
                f"the {word} in the precondition ({wanted}) does not match the {word} in record ({actual}). "
                f"The object might have been {change}"
            )
            raise conflict(call.resource.group, call.resource.kind, call.name, text)


def _answer(call: Call, final: JSON) -> JSON:
    if call.resource.kind in _RETURN_OBJECT:
        return final
    resource = call.resource
    details = {"name": call.name, "group": resource.group, "kind": resource.plural, "uid": final["metadata"]["uid"]}
    return success(details)
