"""Create and update: the steps of one write, in the API server's order, until the object is stored.

Decode, default, track managers, admission, the server's own fields, validation, validating webhooks, storage. What each
step does to a kind is in `strategy` and `checks`, what follows for other objects in `effects`. Patches become updates
in `patching`.
"""

from __future__ import annotations

import secrets
import uuid
from typing import TYPE_CHECKING

from app.devtools.sandbox.access.claimwrites import claim_faults
from app.devtools.sandbox.api.call import copy_json
from app.devtools.sandbox.api.effects import after_removal, after_write, check_lasting, check_room
from app.devtools.sandbox.api.failures import already_exists, bad_request, conflict, failure, invalid, not_found
from app.devtools.sandbox.api.managers import tracked
from app.devtools.sandbox.kinds import admissible, strategy
from app.devtools.sandbox.kinds.checks import check_base, check_create, check_uid, check_update, warnings
from app.devtools.sandbox.kinds.quotausage import SERVICES, VOLUME_CLAIMS
from app.devtools.sandbox.storage import AlreadyExistsError, ConflictError, MissingError

if TYPE_CHECKING:
    from app.devtools.sandbox.api.call import Call
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_MAX_PREFIX = 58
MANAGED = "managedFields"


def read_sent(call: Call, sent: JSON) -> JSON:
    """A sent object as its kind defines it, with defaults; unknown fields warn or refuse as the request asks."""
    obj, unknown = strategy.decode(call.resource, sent)
    report_unknown(call, unknown)
    return strategy.default(call.resource, obj)


def report_unknown(call: Call, unknown: list[str]) -> None:
    """Raises StatusError 400 under strict validation, warns under the lenient one."""
    if not unknown or call.field_validation == "Ignore":
        return
    texts = [f'unknown field "{path}"' for path in unknown]
    if call.field_validation == "Strict":
        kind, version = call.resource.kind, call.resource.version
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: '
        raise bad_request(message + ", ".join(texts))
    call.warnings += texts


async def create(state: ClusterState, call: Call, sent: JSON, *, applied: bool = False) -> JSON:
    """Store a new object and return it; `applied` says that its managers are recorded already."""
    resource = call.resource
    obj = copy_json(read_sent(call, sent))
    metadata = obj["metadata"]
    place(call, metadata)
    version_given = metadata.pop("resourceVersion", "") not in (None, "", "0") and not applied
    for name in ("uid", "creationTimestamp", *(() if applied else (MANAGED,))):
        metadata.pop(name, None)
    now = state.storage.now()
    if not applied:
        obj = tracked(state, call, None, obj)
    obj = await admissible.mutate(state, call, "CREATE", obj, None, name=metadata.get("name") or "")
    metadata = obj["metadata"]
    _generate_name(metadata)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = now
    strategy.begin_create(resource, obj)
    strategy.settle(resource, obj, None)
    obj["metadata"] = _in_order(obj["metadata"])
    name = metadata.get("name") or ""
    errors = claim_faults(state, call, obj, None) + check_create(resource, obj)
    if errors:
        raise invalid(resource.group, resource.kind, name, errors)
    if version_given:
        raise failure(500, "", "resourceVersion should not be set on objects to be created")
    call.warnings += warnings(resource, obj)
    await admissible.validate(state, call, "CREATE", copy_json(obj), None, name=name)
    if call.dry_run:
        if state.storage.get(resource.key, metadata.get("namespace") or "", name) is not None:
            raise already_exists(resource.group, resource.plural, name)
        check_room(state, resource, obj)
        return obj
    admissible.check_namespace(state, call)
    check_lasting(state, call, name)
    check_room(state, resource, obj)
    try:
        stored = state.storage.create(resource.key, obj)
    except AlreadyExistsError as error:
        refused = already_exists(resource.group, resource.plural, name)
        present = state.storage.get(resource.key, metadata.get("namespace") or "", name)
        if present is not None and present["metadata"].get("deletionTimestamp"):
            refused.status["message"] = f"object is being deleted: {refused.status['message']}"
        raise refused from error
    return after_write(state, resource, None, stored)


async def update(state: ClusterState, call: Call, sent: JSON, old: JSON, *, applied: bool = False) -> JSON:
    """Store a changed object and return it. `old` is the stored one that the change was computed from.

    Raises StatusError 409 where `sent` names another version, or where the stored one changed meanwhile.
    """
    resource, name = call.resource, call.name
    new = copy_json(read_sent(call, sent))
    metadata = new["metadata"]
    place(call, metadata)
    _check_identity(call, metadata, old)
    if errors := check_base(resource, metadata):
        raise invalid(resource.group, resource.plural, name, errors)
    expected = metadata.get("resourceVersion") or ""
    if expected and expected != old["metadata"]["resourceVersion"]:
        raise conflict(resource.group, resource.plural, name)
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
    strategy.begin_update(resource, new, old, subresource=call.subresource)
    if not applied:
        new = tracked(state, call, old, new)
    new = await admissible.mutate(state, call, "UPDATE", new, old, name=name)
    strategy.begin_update(resource, new, old, subresource=call.subresource)
    strategy.settle(resource, new, old, subresource=call.subresource)
    new["metadata"] = _in_order(new["metadata"])
    errors = claim_faults(state, call, new, old) + check_update(resource, new, old, subresource=call.subresource)
    if errors:
        raise invalid(resource.group, resource.kind, name, errors)
    call.warnings += warnings(resource, new)
    await admissible.validate(state, call, "UPDATE", copy_json(new), old, name=name)
    if _same(new, old):
        return old
    if resource.key in (SERVICES, VOLUME_CLAIMS) and not call.subresource:
        check_room(state, resource, new, old)
    if call.dry_run:
        return new
    return _store(state, call, new, old)


def _store(state: ClusterState, call: Call, new: JSON, old: JSON) -> JSON:
    resource = call.resource
    metadata = new["metadata"]
    try:
        if _is_gone(resource, new):
            current = state.storage.get(resource.key, metadata.get("namespace") or "", metadata["name"])
            if current is None or current["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
                raise conflict(resource.group, resource.plural, call.name)
            final = state.storage.delete(resource.key, metadata.get("namespace") or "", metadata["name"], last=new)
            after_removal(state, resource, final)
            return final
        stored = state.storage.update(resource.key, new, expected=old["metadata"]["resourceVersion"])
    except MissingError as error:
        raise not_found(resource.group, resource.plural, call.name) from error
    except ConflictError as error:
        raise conflict(resource.group, resource.plural, call.name) from error
    return after_write(state, resource, old, stored)


def _is_gone(resource: ApiResource, obj: JSON) -> bool:
    """An object on its way out leaves with its last finalizer, unless it still has time to end gracefully.

    A namespace has finalizers in its spec, too: those of what lies in it.
    """
    metadata = obj["metadata"]
    waiting = bool(metadata.get("finalizers")) or not metadata.get("deletionTimestamp")
    if resource.kind == "Namespace" and not resource.custom:
        waiting = waiting or bool((obj.get("spec") or {}).get("finalizers"))
    return not waiting and not metadata.get("deletionGracePeriodSeconds")


def place(call: Call, metadata: JSON) -> None:
    """The namespace and name of the object are those of the path; raises StatusError 400 where they differ."""
    if call.resource.namespaced:
        if metadata.get("namespace", call.namespace) != call.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = call.namespace
    elif metadata.get("namespace") == "":
        del metadata["namespace"]
    if call.name:
        name = metadata.setdefault("name", call.name)
        if name != call.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def _check_identity(call: Call, metadata: JSON, old: JSON) -> None:
    faults = check_uid(metadata, old)
    if not faults:
        return
    resource = call.resource
    if call.verb == "patch":
        raise invalid(resource.group, resource.kind, call.name, faults)
    parts = ("registry", resource.group if resource.custom else "", resource.plural, call.namespace, call.name)
    text = (
        f"StorageError: invalid object, Code: 4, Key: /{'/'.join(filter(None, parts))}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: "
        f"{old['metadata']['uid']}"
    )
    raise conflict(resource.group, resource.plural, call.name, text)


def _generate_name(metadata: JSON) -> None:
    prefix = metadata.get("generateName")
    if prefix and not metadata.get("name"):
        metadata["name"] = prefix[:_MAX_PREFIX] + "".join(secrets.choice(_NAME_LETTERS) for _ in range(5))


_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    MANAGED,
)


def _in_order(metadata: JSON) -> JSON:
    """Metadata in the API's order; empty maps and lists are absent, as everywhere in the API."""
    return {name: metadata[name] for name in _ORDER if metadata.get(name) not in (None, {}, [], "")}


def _same(new: JSON, old: JSON) -> bool:
    """Whether a write would change nothing but the times of managers; such a write is none."""
    return _timeless(new) == _timeless(old)


def _timeless(obj: JSON) -> JSON:
    metadata = dict(obj["metadata"])
    metadata[MANAGED] = [{**entry, "time": ""} for entry in metadata.get(MANAGED) or []]
    return {**obj, "metadata": metadata}
