"""`scale` of workloads: an object of another kind that is computed, not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.devtools.sandbox.api import patching
from app.devtools.sandbox.api.call import Call, Reply, copy_json, decode_bounded, decode_object, json_reply
from app.devtools.sandbox.api.failures import bad_request, conflict, internal, invalid, method_not_allowed
from app.devtools.sandbox.api.reading import stored
from app.devtools.sandbox.kinds import admissible, strategy
from app.devtools.sandbox.merge.apply import track_update
from app.kinds.fielderrors import FieldError

if TYPE_CHECKING:
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON


async def scale(state: ClusterState, call: Call) -> Reply:
    """GET, PUT and PATCH of the number of replicas."""
    resource = call.resource
    old = stored(state, call)
    before = _scale_of(call, old)
    if call.verb == "get":
        if resource.custom and strategy.at_path(old, resource.scale[0]) is None:
            raise internal(f'the spec replicas field ".{resource.scale[0]}" does not exist')
        return json_reply(before)
    if call.verb == "update":
        sent = decode_object(call)
    elif call.verb == "patch":
        sent = patching.compute(call, patching.media_type(call), decode_bounded(call.body), before)
    else:
        raise method_not_allowed()
    expected = (sent.get("metadata") or {}).get("resourceVersion")
    if expected and expected != old["metadata"]["resourceVersion"]:
        raise conflict(resource.group, resource.plural, call.name)
    changed = before | {"spec": {"replicas": _replicas(sent.get("spec") or {})}}
    changed = await admissible.mutate(state, call, "UPDATE", changed, before, kind="Scale", name=call.name)
    replicas = _replicas(changed["spec"])
    new = copy_json(old)
    strategy.set_path(new, resource.scale[0], replicas)
    if resource.custom:
        if faults := strategy.check_update(resource, new, old, subresource="scale"):
            raise invalid(resource.group, resource.kind, call.name, faults)
    elif replicas < 0:
        fault = FieldError("spec.replicas", "Invalid", "must be greater than or equal to 0", replicas)
        raise invalid("autoscaling", "Scale", call.name, [fault])
    await admissible.validate(state, call, "UPDATE", changed, before, kind="Scale", name=call.name)
    if call.dry_run or new == old:
        return json_reply(_scale_of(call, new))
    new = copy_json(stored(state, call))
    strategy.set_path(new, resource.scale[0], replicas)
    new["metadata"]["generation"] += 1
    new = track_update(
        old,
        new,
        manager=call.manager,
        api_version=resource.api_version,
        now=state.storage.now(),
        subresource="scale",
    )
    return json_reply(_scale_of(call, state.storage.update(resource.key, new)))


def _scale_of(call: Call, obj: JSON) -> JSON:
    custom, (wanted, present, selector) = call.resource.custom, call.resource.scale
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = strategy.at_path(obj, wanted) or 0
    labels = (obj["spec"].get("selector") or {}).get("matchLabels") or {} if not custom else {}
    text = strategy.at_path(obj, selector) if custom else ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in kept if name in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": strategy.at_path(obj, present) or 0} | ({"selector": text} if text else {}),
    }


def _replicas(spec: Any) -> int:
    replicas = spec.get("replicas") if isinstance(spec, dict) else ""
    if replicas is None:
        return 0
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("Scale: spec.replicas has to be an integer")
    return replicas
