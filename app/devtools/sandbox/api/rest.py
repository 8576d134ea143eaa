"""The verbs on stored resources: what a routed and authorized request does, and with what it is answered.

Owns the choice of the step; the steps are in `reading`, `watching`, `writes`, `patching`, `deletion`, `questions`,
`scaling`, `tokens`, `containers` and `proxying`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.devtools.sandbox.api import (
    containers,
    deletion,
    patching,
    proxying,
    questions,
    reading,
    scaling,
    tokens,
    writes,
)
from app.devtools.sandbox.api.call import Call, Reply, copy_json, decode_object, decode_options, json_reply
from app.devtools.sandbox.api.failures import (
    StatusError,
    bad_request,
    conflict,
    method_not_allowed,
    no_such_path,
    not_found,
    not_in_sandbox,
    success,
)
from app.devtools.sandbox.api.forms import list_form, shown
from app.devtools.sandbox.api.watching import watch_objects
from app.devtools.sandbox.kinds import admissible, strategy

if TYPE_CHECKING:
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON


_MISSING = frozenset({"nodes/proxy", "services/proxy", "pods/resize"})
"""Subresources of Kubernetes that the sandbox has not."""


async def serve(state: ClusterState, call: Call) -> Reply:
    """Answer one request; raises StatusError for what it refuses."""
    reply = await _dispatch(state, call)
    if call.resource.warning:
        call.warnings.append(call.resource.warning)
    return reply


async def _dispatch(state: ClusterState, call: Call) -> Reply:
    resource = call.resource
    if call.subresource and call.subresource not in resource.subresources:
        raise _no_subresource(call)
    if call.resource.virtual:
        if call.verb != "create":
            raise method_not_allowed()
        return json_reply(questions.answer(state, call, decode_object(call)), status=201)
    if call.subresource in _SUBRESOURCES:
        verbs, answer = _SUBRESOURCES[call.subresource]
        if call.verb not in verbs:
            raise method_not_allowed()
        return await answer(state, call)
    match call.verb:
        case "get":
            return reading.get_object(state, call)
        case "list":
            return reading.list_objects(state, call)
        case "watch":
            return watch_objects(state, call)
    if call.verb not in _WRITES or bool(call.name) != (call.verb not in ("create", "deletecollection")):
        raise method_not_allowed()
    return await _WRITES[call.verb](state, call)


def _no_subresource(call: Call) -> StatusError:
    resource = call.resource
    if resource.custom:
        return not_found(resource.group, resource.plural, call.name)
    path = f"{resource.plural}/{call.subresource}"
    return not_in_sandbox(path) if path in _MISSING else no_such_path()


async def _create(state: ClusterState, call: Call) -> Reply:
    return json_reply(shown(call, await writes.create(state, call, decode_object(call))), status=201)


async def _patch(state: ClusterState, call: Call) -> Reply:
    patched, created_now = await patching.patch(state, call)
    return json_reply(shown(call, patched), status=201 if created_now else 200)


async def _update(state: ClusterState, call: Call) -> Reply:
    sent = decode_object(call)
    old = reading.stored(state, call)
    if not isinstance(sent.get("metadata"), dict):
        raise bad_request("metadata has to be an object")
    if not sent["metadata"].get("name"):
        raise bad_request("the name of the object (based on URL) was undeterminable: name must be provided")
    updated = await writes.update(state, call, sent, old)
    return json_reply(shown(call, updated))


async def _delete(state: ClusterState, call: Call) -> Reply:
    options = decode_options(call)
    deletion.check_options(options)
    _apply_dry_run(call, options)
    answer, _ = await deletion.delete(state, call, options)
    return json_reply(answer if answer.get("kind") == "Status" else shown(call, answer))


async def _delete_collection(state: ClusterState, call: Call) -> Reply:
    options = decode_options(call)
    deletion.check_options(options)
    _apply_dry_run(call, options)
    objects = reading.selected(state, call)
    for obj in objects:
        one = Call(
            call.verb,
            call.resource,
            obj["metadata"].get("namespace") or "",
            obj["metadata"]["name"],
            "",
            call.user,
            call.query,
            warnings=call.warnings,
        )
        try:
            await deletion.delete(state, one, options)
        except StatusError as error:
            if error.code != 404:
                raise
    form = list_form(call, objects, {"resourceVersion": str(state.storage.version)})
    return json_reply(form)


def _apply_dry_run(call: Call, options: JSON) -> None:
    """DeleteOptions may ask for a dry run in the body, too."""
    asked = options.get("dryRun")
    if asked and not call.query.get("dryRun"):
        call.query = {**call.query, "dryRun": asked[0] if isinstance(asked, list) and asked == ["All"] else str(asked)}


async def _bind(state: ClusterState, call: Call) -> Reply:
    """pods/binding: the scheduler's decision."""
    sent = decode_object(call)
    metadata = sent.get("metadata") or {}
    if not isinstance(metadata, dict) or metadata.get("name") != call.name:
        raise bad_request("name in URL does not match name in Binding object")
    writes.place(call, metadata)
    target = sent.get("target")
    node = target.get("name") if isinstance(target, dict) else None
    if not isinstance(node, str) or not node:
        raise bad_request("Binding: target.name is required")
    pod = reading.stored(state, call)
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict("", "pods", call.name, f"pod {call.name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        text = f'pod {call.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise conflict("", "pods/binding", call.name, text)
    binding: JSON = {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": call.name, "namespace": call.namespace},
        "target": target,
    }
    binding = await admissible.mutate(state, call, "CREATE", binding, None, kind="Binding")
    await admissible.validate(state, call, "CREATE", binding, None, kind="Binding")
    if not call.dry_run:
        bound = copy_json(reading.stored(state, call))
        if bound["spec"].get("nodeName"):
            raise conflict("", "pods/binding", call.name, "pod is already assigned to a node")
        bound["spec"]["nodeName"] = node
        now = state.storage.now()
        condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        status = bound.setdefault("status", {})
        others = [entry for entry in status.get("conditions") or [] if entry.get("type") != "PodScheduled"]
        status["conditions"] = [*others, condition]
        state.storage.update(call.resource.key, bound)
    return json_reply(success({}), status=201)


async def _evict(state: ClusterState, call: Call) -> Reply:
    """pods/eviction: a deletion; disruption budgets are stored but not honored."""
    sent = decode_object(call)
    options = sent.get("deleteOptions") or {}
    if not isinstance(options, dict):
        raise bad_request("Eviction: deleteOptions has to be an object")
    deletion.check_options(options)
    pod = reading.stored(state, call)
    one = Call(
        "delete",
        call.resource,
        call.namespace,
        pod["metadata"]["name"],
        "",
        call.user,
        call.query,
        warnings=call.warnings,
    )
    await deletion.delete(state, one, options)
    return json_reply(success({}), status=201)


_SUBRESOURCES = {
    "binding": (("create",), _bind),
    "eviction": (("create",), _evict),
    "scale": (("get", "update", "patch"), scaling.scale),
    "token": (("create",), tokens.token),
    "log": (("get",), containers.log),
    **dict.fromkeys(("exec", "attach", "portforward"), (("get", "create"), containers.connect)),
    "proxy": (tuple(proxying.METHODS), proxying.proxy),
}
_WRITES = {
    "create": _create,
    "update": _update,
    "patch": _patch,
    "delete": _delete,
    "deletecollection": _delete_collection,
}


def complete(state: ClusterState, obj: JSON) -> JSON:
    """An object that a webhook changed, as its kind defines it, with defaults; what webhooks invent is dropped."""
    version = str(obj.get("apiVersion"))
    group, _, label = version.rpartition("/")
    resource = state.registry.by_kind(group, label, str(obj.get("kind")))
    if resource is None:
        return obj
    decoded, _ = strategy.decode(resource, obj)
    return strategy.default(resource, copy_json(decoded))
