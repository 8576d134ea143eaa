"""`scale` of workloads: an object of another kind that is computed, not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.devtools.sandbox.api import patching
from app.devtools.sandbox.api.call import Call, Reply, copy_json, decode_bounded, decode_object, json_reply
from app.devtools.sandbox.api.failures import bad_request, conflict, internal, invalid
from app.devtools.sandbox.api.managers import tracked
from app.devtools.sandbox.api.reading import stored
from app.devtools.sandbox.kinds import admissible, checks
from app.devtools.sandbox.kinds.scale import at_path, check_wanted, scale_of, set_path

if TYPE_CHECKING:
    from app.devtools.sandbox.state import ClusterState


async def scale(state: ClusterState, call: Call) -> Reply:
    """GET, PUT and PATCH of the number of replicas."""
    resource = call.resource
    old = stored(state, call)
    before = scale_of(resource, old)
    if call.verb == "get":
        if resource.custom and at_path(old, resource.scale[0]) is None:
            raise internal(f'the spec replicas field ".{resource.scale[0]}" does not exist')
        return json_reply(before)
    if call.verb == "update":
        sent = decode_object(call)
    else:
        sent = patching.compute(call, patching.media_type(call), decode_bounded(call.body), before)
    expected = (sent.get("metadata") or {}).get("resourceVersion")
    if expected and expected != old["metadata"]["resourceVersion"]:
        raise conflict(resource.group, resource.plural, call.name)
    changed = before | {"spec": {"replicas": _replicas(sent.get("spec") or {})}}
    changed = await admissible.mutate(state, call, "UPDATE", changed, before, kind="Scale", name=call.name)
    replicas = _replicas(changed["spec"])
    new = copy_json(old)
    set_path(new, resource.scale[0], replicas)
    if resource.custom:
        if faults := checks.check_update(resource, new, old, subresource="scale"):
            raise invalid(resource.group, resource.kind, call.name, faults)
    elif faults := check_wanted(replicas):
        raise invalid("autoscaling", "Scale", call.name, faults)
    await admissible.validate(state, call, "UPDATE", changed, before, kind="Scale", name=call.name)
    if call.dry_run or new == old:
        return json_reply(scale_of(resource, new))
    new = copy_json(stored(state, call))
    set_path(new, resource.scale[0], replicas)
    new["metadata"]["generation"] += 1
    new = tracked(state, call, old, new)
    return json_reply(scale_of(resource, state.storage.update(resource.key, new)))


def _replicas(spec: Any) -> int:
    replicas = spec.get("replicas") if isinstance(spec, dict) else ""
    if replicas is None:
        return 0
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("Scale: spec.replicas has to be an integer")
    return replicas
