"""GET: one object, a list with pages, a watch; and the form that a client wants (object, table, metadata)."""

from __future__ import annotations

import base64
import binascii
import random
import time
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from app.devtools.sandbox.api.call import Call, Reply, json_reply
from app.devtools.sandbox.api.failures import bad_request, expired, failure, invalid, not_found, version_too_large
from app.devtools.sandbox.api.selection import Selection, parse_selection
from app.devtools.sandbox.history import CompactedError
from app.devtools.sandbox.printing.tables import render_table
from app.devtools.sandbox.watch import WatchOptions, watch_lines
from app.kinds.fielderrors import FieldError
from app.wire import JSON, decode_json, encode_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.devtools.sandbox.state import ClusterState

_PAGE_GONE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Form:
    """How objects are shown: `kind` is "", `Table`, `PartialObjectMetadata` or `PartialObjectMetadataList`."""

    kind: str = ""
    include_object: str = "Metadata"


def negotiate(call: Call) -> Form:
    """The first form of the Accept header that the server has; JSON of the object itself where none is asked for."""
    for choice in call.accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        given = dict(part.partition("=")[::2] for part in parameters)
        kind = given.get("as", "")
        if media not in ("application/json", "application/yaml"):
            continue
        if not kind:
            return Form()
        known = given.get("g") == "meta.k8s.io" and given.get("v") in ("v1", "v1beta1")
        if known and kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form(kind, call.query.get("includeObject") or "Metadata")
    return Form()


def outward(resource: ApiResource, obj: JSON) -> JSON:
    """The object in the version that was asked for."""
    return obj if obj.get("apiVersion") == resource.api_version else {**obj, "apiVersion": resource.api_version}


def stored(state: ClusterState, call: Call) -> JSON:
    """The object of the request in the version that was asked for; raises StatusError 404."""
    found = state.storage.get(call.resource.key, call.namespace, call.name)
    if found is None:
        raise not_found(call.resource.group, call.resource.plural, call.name)
    return outward(call.resource, found)


def shown(call: Call, obj: JSON) -> JSON:
    """One object in the form that the client wants."""
    form, resource = negotiate(call), call.resource
    obj = outward(resource, obj)
    if form.kind == "Table":
        table = _table(resource, [obj], form)
        table["metadata"] = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return table
    if form.kind == "PartialObjectMetadata":
        return {"kind": form.kind, "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
    return obj


def get_object(state: ClusterState, call: Call) -> Reply:
    """GET of one object."""
    wanted = call.integer("resourceVersion")
    if wanted and wanted > state.storage.version:
        raise version_too_large(wanted, state.storage.version)
    return json_reply(shown(call, stored(state, call)))


def list_objects(state: ClusterState, call: Call) -> Reply:
    """GET of a collection: the newest state, an exact one, or the next page of an earlier one."""
    selection = _selection(call)
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
    selection = _selection(call)
    return [obj for obj in state.storage.list(call.resource.key, call.namespace) if selection.matches(obj)]


def watch_objects(state: ClusterState, call: Call) -> Reply:
    """The stream of changes that `watch=true` asks for."""
    initial = call.flag("sendInitialEvents")
    if initial and call.query.get("resourceVersionMatch") != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid("meta.k8s.io", "ListOptions", "", [FieldError("resourceVersionMatch", "Forbidden", text)])
    timeout = call.integer("timeoutSeconds")
    form, resource = negotiate(call), call.resource
    options = WatchOptions(
        namespace=call.namespace,
        selection=_selection(call),
        version=call.integer("resourceVersion"),
        bookmarks=call.flag("allowWatchBookmarks"),
        timeout=float(timeout) if timeout else random.uniform(1800, 3600),  # noqa: S311 - spreads clients, no secret
        bookmark_interval=state.bookmark_interval,
        initial_events=initial,
    )
    render = _watch_form(resource, form)
    lines = watch_lines(state.storage, resource, options, render=render, shared=not form.kind)
    return Reply(200, lines, "application/json;stream=watch" if form.kind else "application/json")


def _watch_form(resource: ApiResource, form: Form) -> Callable[[JSON], JSON]:
    if form.kind == "Table":
        first = True

        def as_table(obj: JSON) -> JSON:
            nonlocal first
            table = _table(resource, [outward(resource, obj)], form)
            table["metadata"] = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            if not first:
                table["columnDefinitions"] = None  # sent once a stream, as clients keep them
            first = False
            return table

        return as_table
    if form.kind:
        return lambda obj: {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
    return lambda obj: outward(resource, obj)


def _selection(call: Call) -> Selection:
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


def list_form(call: Call, objects: list[JSON], metadata: JSON) -> JSON:
    """A list of objects in the form that the client wants."""
    form, resource = negotiate(call), call.resource
    if form.kind == "Table":
        table = _table(resource, [outward(resource, obj) for obj in objects], form)
        table["metadata"] = metadata
        return table
    if form.kind:
        items = [
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
            for obj in objects
        ]
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": items,
        }
    if resource.custom:
        items = [outward(resource, obj) for obj in objects]
    else:  # elements of a typed list do not repeat their type
        items = [{name: value for name, value in obj.items() if name not in ("kind", "apiVersion")} for obj in objects]
    return {"kind": resource.kind_of_list, "apiVersion": resource.api_version, "metadata": metadata, "items": items}


def _table(resource: ApiResource, objects: list[JSON], form: Form) -> JSON:
    if form.include_object not in ("None", "Metadata", "Object"):
        raise failure(400, "BadRequest", f'unrecognized includeObject value: "{form.include_object[:64]}"')
    columns = list(resource.columns) if resource.columns is not None else None
    # A custom kind may bear the name of a built-in one, whose columns are not its own.
    kind = resource.kind if not resource.custom else ""
    return render_table(objects, kind, columns, now=time.time(), include_object=form.include_object)
