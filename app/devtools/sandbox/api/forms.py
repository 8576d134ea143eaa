"""The form in which a client wants objects: whole, a table, metadata alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.devtools.sandbox.api.call import Call
from app.devtools.sandbox.api.failures import failure
from app.devtools.sandbox.printing.tables import render_table
from app.wire import JSON

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource


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


def watch_form(resource: ApiResource, form: Form) -> Callable[[JSON], JSON]:
    """How each object of a watch is shown."""
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


def _table(resource: ApiResource, objects: list[JSON], form: Form) -> JSON:
    if form.include_object not in ("None", "Metadata", "Object"):
        raise failure(400, "BadRequest", f'unrecognized includeObject value: "{form.include_object[:64]}"')
    columns = list(resource.columns) if resource.columns is not None else None
    # A custom kind may bear the name of a built-in one, whose columns are not its own.
    kind = resource.kind if not resource.custom else ""
    return render_table(objects, kind, columns, now=time.time(), include_object=form.include_object)
