"""Custom resources by the schema of their definition: decoding, defaults, validation. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.devtools.sandbox.kinds.scale import check_replicas
from app.devtools.sandbox.schemas.embedded import check_embedded, coerce_embedded
from app.devtools.sandbox.schemas.rules import check_rules
from app.devtools.sandbox.schemas.schema import apply_defaults, prune, unknown_fields
from app.devtools.sandbox.schemas.schemavalues import validate, validate_update
from app.kinds.fielderrors import FieldError
from app.kinds.shapes import decode_metadata

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.wire import JSON


def decode_custom(resource: ApiResource, obj: JSON) -> tuple[JSON, list[str]]:
    """The object, and the paths of fields that its kind does not have. Raises ShapeError for a wrong type."""
    metadata, unknown = decode_metadata(resource.kind, resource.version, obj.get("metadata") or {})
    whole = {**obj, "metadata": metadata}
    if resource.schema is not None:
        unknown += unknown_fields(whole, resource.schema)
        whole = prune(whole, resource.schema)
        if resource.embeds:
            prefix = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            whole, inner = coerce_embedded(whole, resource.schema, prefix)
            unknown += inner
    return whole, unknown


def default_custom(resource: ApiResource, obj: JSON) -> JSON:
    return apply_defaults(obj, resource.schema) if resource.schema is not None else obj


def check_custom(resource: ApiResource, obj: JSON, old: JSON | None) -> list[FieldError]:
    """All faults of an object, its metadata aside; `old` is what an update replaces."""
    if resource.schema is None:
        return []
    faults = validate(obj, resource.schema) if old is None else validate_update(obj, old, resource.schema)
    if resource.embeds:
        faults += check_embedded(obj, resource.schema)
    if "scale" in resource.subresources:
        faults += check_replicas(resource, obj)
    return faults + (check_rules(obj, old, resource.rules, faults) if resource.rules is not None else [])
