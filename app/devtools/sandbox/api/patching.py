"""PATCH: the four kinds of patch, computed on the stored object and written as an update (or, for apply, a create).

A patch without a version of its own is tried again when another write came between, as the API server does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonpatch
import jsonpointer

from app.devtools.sandbox.api import writes
from app.devtools.sandbox.api.call import decode_bounded, decode_yaml, whole_numbers
from app.devtools.sandbox.api.failures import (
    StatusError,
    bad_request,
    failure,
    unsupported_media,
)
from app.devtools.sandbox.api.managers import check_typed, merged
from app.devtools.sandbox.api.reading import stored
from app.devtools.sandbox.kinds import strategy
from app.devtools.sandbox.merge.strategic import BadPatch, json_merge, strategic_merge

if TYPE_CHECKING:
    from app.devtools.sandbox.api.call import Call
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_TRIES = 5
_MAX_OPERATIONS = 10_000


async def patch(state: ClusterState, call: Call) -> tuple[JSON, bool]:
    """The object after the patch, and whether an apply created it."""
    media = media_type(call)
    if media == APPLY_PATCH:
        return await _apply(state, call)
    body = decode_bounded(call.body)
    for attempt in range(1, _TRIES + 1):
        old = stored(state, call)
        new = compute(call, media, body, old)
        try:
            warnings = len(call.warnings)
            return await writes.update(state, call, new, old), False
        except StatusError as error:
            based_on_current = new["metadata"].get("resourceVersion") == old["metadata"]["resourceVersion"]
            if error.reason != "Conflict" or not based_on_current or attempt == _TRIES:
                raise
            del call.warnings[warnings:]
    raise AssertionError


def media_type(call: Call) -> str:
    """The kind of the patch; raises StatusError 415 for one that the resource does not take."""
    media = call.content_type.partition(";")[0].strip().lower()
    allowed = [JSON_PATCH, MERGE_PATCH, *([] if call.resource.custom else [STRATEGIC_PATCH]), APPLY_PATCH]
    if media not in allowed:
        raise unsupported_media(allowed)
    return media


def compute(call: Call, media: str, body: Any, old: JSON) -> JSON:
    """`old` after the patch; raises StatusError 400 or 422 for a patch that makes no sense."""
    if media == JSON_PATCH:
        new = _json_patch(body, old)
    elif not isinstance(body, dict):
        raise bad_request("the patch has to be an object")
    elif media == MERGE_PATCH:
        new = json_merge(old, body)
    else:
        try:
            new = whole_numbers(strategic_merge(old, body, call.resource.kind))
        except BadPatch as error:
            raise failure(500, "", str(error)) from error
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            raise bad_request(f"the patch does not fit the object: {error}") from error
    if new == {}:
        text = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(text)
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise failure(422, "Invalid", "the patch leaves no object")
    return new


def _json_patch(body: Any, old: JSON) -> Any:
    if not isinstance(body, list) or not all(isinstance(operation, dict) for operation in body):
        raise bad_request("error decoding patch: json: cannot unmarshal the body into Go value of type jsonpatch.Patch")
    if len(body) > _MAX_OPERATIONS:
        raise failure(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON "
            f"patch is {_MAX_OPERATIONS}, got {len(body)}",
        )
    try:
        return jsonpatch.JsonPatch(body).apply(old)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise failure(422, "Invalid", "the server rejected our request due to an error in our request") from error
    except (TypeError, AttributeError, KeyError, ValueError, IndexError) as error:
        raise bad_request(f"the patch does not fit the object: {error}") from error


async def _apply(state: ClusterState, call: Call) -> tuple[JSON, bool]:
    applied = decode_yaml(call.body)
    if not isinstance(applied, dict):
        raise bad_request("error decoding YAML: the applied configuration has to be an object")
    if not call.query.get("fieldManager"):
        message = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        cause = {
            "reason": "FieldValueRequired",
            "message": "Required value: is required for apply patch",
            "field": "fieldManager",
        }
        raise failure(422, "Invalid", message, details={"causes": [cause]})
    sent = applied
    applied, unknown = strategy.decode(call.resource, applied)
    check_typed(call, sent, unknown)
    writes.report_unknown(call, unknown)
    metadata = applied["metadata"]
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    for name in ("creationTimestamp", "uid") if not metadata.get("uid") else ("creationTimestamp",):
        metadata.pop(name, None)
    writes.place(call, metadata)
    for attempt in range(1, _TRIES + 1):
        exists = state.storage.get(call.resource.key, call.namespace, call.name) is not None
        old = stored(state, call) if exists or call.subresource else None
        obj = merged(state, call, applied, old)
        try:
            warnings = len(call.warnings)
            if old is None:
                return await writes.create(state, call, obj, applied=True), True
            return await writes.update(state, call, obj, old, applied=True), False
        except StatusError as error:
            raced = error.reason in ("Conflict", "AlreadyExists")
            if not raced or metadata.get("resourceVersion") or attempt == _TRIES:
                raise
            del call.warnings[warnings:]
    raise AssertionError
