"""GET: one object, and a list with pages."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from typing import TYPE_CHECKING

import msgspec

from app.devtools.sandbox.api.call import Call, Reply, json_reply
from app.devtools.sandbox.api.failures import bad_request, expired, not_found, version_too_large
from app.devtools.sandbox.api.forms import list_form, outward, shown
from app.devtools.sandbox.api.selection import Selection, parse_selection
from app.devtools.sandbox.history import CompactedError
from app.wire import JSON, decode_json, encode_json

if TYPE_CHECKING:
    from app.devtools.sandbox.state import ClusterState

_PAGE_GONE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


def stored(state: ClusterState, call: Call) -> JSON:
    """The object of the request in the version that was asked for; raises StatusError 404."""
    found = state.storage.get(call.resource.key, call.namespace, call.name)
    if found is None:
        raise not_found(call.resource.group, call.resource.plural, call.name)
    return outward(call.resource, found)


def get_object(state: ClusterState, call: Call) -> Reply:
    """GET of one object."""
    wanted = call.integer("resourceVersion")
    if wanted and wanted > state.storage.version:
        raise version_too_large(wanted, state.storage.version)
    return json_reply(shown(call, stored(state, call)))


def list_objects(state: ClusterState, call: Call) -> Reply:
    """GET of a collection: the newest state, an exact one, or the next page of an earlier one."""
    selection = selection_of(call)
    limit = call.integer("limit") or 0
    objects, version, start = _source(state, call)
    total = len(objects)
    chosen: list[JSON] = []
    last = total
    for index in range(start, total):
        if selection.matches(objects[index]):
            if limit and len(chosen) == limit:
                last = index
                break
            chosen.append(objects[index])
    metadata: JSON = {"resourceVersion": str(version)}
    if last < total and chosen:
        metadata["continue"] = _token(version, chosen[-1])
        if selection.everything:
            metadata["remainingItemCount"] = total - last
    return json_reply(list_form(call, chosen, metadata))


def selected(state: ClusterState, call: Call) -> list[JSON]:
    """The stored objects that a request on a collection is about."""
    selection = selection_of(call)
    return [obj for obj in state.storage.list(call.resource.key, call.namespace) if selection.matches(obj)]


def selection_of(call: Call) -> Selection:
    """What a request on a collection, or on one object, selects."""
    fields = call.query.get("fieldSelector", "")
    if call.name and not call.subresource:
        fields = ",".join(filter(None, (f"metadata.name={call.name}", fields)))
    return parse_selection(call.resource, label_selector=call.query.get("labelSelector", ""), field_selector=fields)


def _source(state: ClusterState, call: Call) -> tuple[list[JSON], int, int]:
    """The objects to list from, in order, the version that they show, and the index to start at."""
    storage, key = state.storage, call.resource.key
    token = call.query.get("continue", "")
    version = call.integer("resourceVersion")
    if token:
        if version:
            raise bad_request("specifying resource version is not allowed when using continue")
        version, namespace, name = _read_token(token)
        objects = _at(state, call, version)
        keys = [_pair(obj) for obj in objects]
        return objects, version, bisect_right(keys, (namespace, name))
    if version and version > storage.version:
        raise version_too_large(version, storage.version)
    if version and call.query.get("resourceVersionMatch") == "Exact":
        return _at(state, call, version), version, 0
    return storage.list(key, call.namespace), storage.version, 0


def _at(state: ClusterState, call: Call, version: int) -> list[JSON]:
    try:
        objects = state.storage.list_at(call.resource.key, version)
    except CompactedError as error:
        raise expired(_PAGE_GONE if call.query.get("continue") else str(error)) from error
    return [objects[pair] for pair in sorted(objects) if not call.namespace or pair[0] == call.namespace]


def _pair(obj: JSON) -> tuple[str, str]:
    return (obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


def _token(version: int, last: JSON) -> str:
    return base64.urlsafe_b64encode(encode_json({"v": "meta.k8s.io/v1", "rv": version, "start": _pair(last)})).decode()


def _read_token(token: str) -> tuple[int, str, str]:
    try:
        content = decode_json(base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True))
        namespace, name = content["start"]
        version = content["rv"]
    except (binascii.Error, ValueError, KeyError, TypeError, msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {type(error).__name__}") from error
    if not (isinstance(version, int) and isinstance(namespace, str) and isinstance(name, str)):
        raise bad_request("invalid continue token: continue key is not valid: unexpected content")
    return version, namespace, name
