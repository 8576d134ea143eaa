"""The server side of `kubectl get`: meta.k8s.io/v1 Tables of objects.

Picks the columns (built-in kinds from `columns`, CRDs from their additionalPrinterColumns, else NAME and AGE) and
assembles rows. Knows nothing of HTTP or storage; the clock is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.devtools.sandbox.printing.columns import BUILT_IN, Column
from app.devtools.sandbox.printing.durations import age
from app.devtools.sandbox.printing.jsonpaths import find
from app.wire import JSON, encode_json

_NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a"
    " client to request the generation of an appropriate name automatically."
)
_NAME = Column("Name", lambda obj, _: obj.get("metadata", {}).get("name", ""), format="name", description=_NAME_TEXT)
_AGE = Column("Age", lambda obj, now: age(obj.get("metadata", {}).get("creationTimestamp"), now=now))


def render_table(
    objects: list[JSON], kind: str, columns: list[JSON] | None, *, now: float, include_object: str
) -> JSON:
    """A Table of `objects`; `columns` are a CRD's additionalPrinterColumns, None for any other kind.

    `now` is in seconds since the epoch. `include_object` is `None`, `Metadata` or `Object`, as in the request. The
    caller sets the list's resourceVersion and continue token.
    """
    chosen = _choose(kind, columns)
    rows: list[JSON] = []
    for obj in objects:
        row: JSON = {"cells": [column.cell(obj, now) for column in chosen]}
        if include_object == "Object":
            row["object"] = obj
        elif include_object != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj.get("metadata", {}),
            }
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [column.definition for column in chosen],
        "rows": rows,
    }


def _choose(kind: str, columns: list[JSON] | None) -> list[Column]:
    if columns:
        return [_NAME, *(_printer_column(column) for column in columns)]
    built_in = BUILT_IN.get(kind)
    if built_in is None:
        return [_NAME, _AGE]
    if kind == "Event":
        return built_in
    if any(column.name in ("Age", "Created At") for column in built_in):
        return [_NAME, *built_in]
    # AGE is the last of the columns that are always shown; the wide ones follow it.
    narrow = [column for column in built_in if column.priority == 0]
    wide = [column for column in built_in if column.priority]
    return [_NAME, *narrow, _AGE, *wide]


def _printer_column(column: JSON) -> Column:
    kind = column.get("type", "string")
    return Column(
        column.get("name", ""),
        _reader(column.get("jsonPath", ""), kind),
        type=kind,
        format=column.get("format", ""),
        priority=column.get("priority", 0),
        description=column.get("description")
        or f"Custom resource definition column (in JSONPath format): {column.get('jsonPath', '')}",
    )


_FITS: dict[str, Callable[[Any], bool]] = {
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
}


def _reader(path: str, kind: str) -> Callable[[JSON, float], Any]:
    def read(obj: JSON, now: float) -> Any:
        found = find(obj, path)
        if not found:
            return None
        if kind == "string":
            return found[0] if len(found) == 1 and isinstance(found[0], str) else _join(found)
        first = found[0]
        if kind == "date":
            return age(first, now=now)
        return first if _FITS.get(kind, lambda _: True)(first) else None

    return read


def _join(found: list[Any]) -> str:
    return " ".join(value if isinstance(value, str) else encode_json(value).decode() for value in found)
