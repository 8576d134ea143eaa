"""Field managers as a request meets them: what it changes becomes its manager's, what it applies is merged."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from app.devtools.sandbox.api.call import Call, copy_json
from app.devtools.sandbox.api.failures import apply_conflict, bad_request, failure
from app.devtools.sandbox.merge.apply import ApplyConflict, server_side_apply, track_update
from app.devtools.sandbox.merge.fieldsets import duplicates, keyed_path
from app.devtools.sandbox.merge.strategic import MergeKeys, merge_keys, merge_keys_from_schema

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON


def tracked(state: ClusterState, call: Call, old: JSON | None, new: JSON) -> JSON:
    """The new object, with what the request changes in it recorded as its manager's."""
    return track_update(
        old,
        new,
        manager=call.manager,
        api_version=call.resource.api_version,
        now=state.storage.now(),
        subresource=call.subresource,
        merge_keys=_keys_of(call.resource),
        unowned=_unowned(call.resource, call.subresource),
    )


def merged(state: ClusterState, call: Call, applied: JSON, old: JSON | None) -> JSON:
    """The object after an apply. Raises StatusError 409 where others own what it changes."""
    if old is None and applied["metadata"].get("uid"):
        raise failure(
            409,
            "Conflict",
            "uid mismatch: the provided object specified uid "
            f"{applied['metadata']['uid']}, and no existing object was found",
        )
    try:
        return server_side_apply(
            old,
            copy_json(applied),
            manager=call.query["fieldManager"],
            force=call.flag("force"),
            now=state.storage.now(),
            merge_keys=_keys_of(call.resource),
            subresource=call.subresource,
            unowned=_unowned(call.resource, call.subresource),
        )
    except ApplyConflict as error:
        raise apply_conflict(str(error), error.causes) from error
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise bad_request(f"failed to create typed patch object: {error}") from error


def check_typed(call: Call, applied: JSON, unknown: list[str]) -> None:
    """Raises StatusError 500 for an applied object that does not fit its type; the message has the first fault.

    Elements of a list have different keys. A built-in kind has all fields that are applied; `applied` is as it was
    sent, `unknown` are the paths of those that the kind does not have.
    """
    tree = _keys_of(call.resource).tree
    faults = [f"{where}: duplicate entries for key {key}" for where, key in duplicates(applied, tree)]
    if not call.resource.custom:
        faults += [f"{keyed_path(path, applied, tree)}: field not declared in schema" for path in unknown]
    if not faults:
        return
    metadata, resource = applied.get("metadata") or {}, call.resource
    group_version = resource.api_version if resource.group else f"/{resource.version}"
    name = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {group_version}, Kind={resource.kind}"
    raise failure(500, "", f"failed to create typed patch object ({name}): {faults[0]}")


def _keys_of(resource: ApiResource) -> MergeKeys:
    """How lists of the resource merge."""
    return _custom_keys(resource) if resource.custom else merge_keys(resource.kind)


@lru_cache(maxsize=256)
def _custom_keys(resource: ApiResource) -> MergeKeys:
    """Kept per definition as it is served: a changed one is another resource."""
    return merge_keys_from_schema(resource.schema or {})


def _unowned(resource: ApiResource, subresource: str) -> frozenset[str]:
    """The top fields that a write to this endpoint resets, so that its writer does not come to own them."""
    if "status" not in resource.subresources:
        return frozenset()
    if subresource != "status":
        return frozenset({"f:status"})
    return frozenset({"f:spec", "f:metadata"} if resource.kind == "ResourceClaim" else {"f:spec"})
