"""What kubectl prints: of a Table of the API server, of an object that was written, of an error. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from app.devtools.sandbox.printing.jsonpaths import find
from app.errors import ApiError
from app.kube.resources import Resource
from app.wire import JSON

_LEAST, _PADDING = 6, 3
"""Widths of a column, as kubectl's tab writer has them."""


def table(answer: JSON, *, wide: bool = False) -> str:
    """The lines of `kubectl get`, or with `wide` of `kubectl get -o wide`; "" for a Table without rows."""
    shown = [index for index, column in enumerate(answer["columnDefinitions"]) if wide or not column.get("priority")]
    rows = [[_cell(row["cells"][index]) for index in shown] for row in answer.get("rows") or ()]
    if not rows:
        return ""
    return _aligned([[answer["columnDefinitions"][index]["name"].upper() for index in shown], *rows])


def named(resource: Resource, name: str) -> str:
    """How kubectl names an object that it has written: `pod/NAME`, `rmdworkload.intel.com/NAME`."""
    return f"{kind_of(resource)}/{name}"


def kind_of(resource: Resource) -> str:
    return ".".join(filter(None, (resource.kind.lower(), resource.group)))


def at_path(obj: JSON, path: str) -> str:
    """The line of `-o jsonpath='{PATH}'`: texts as they are, all else as JSON."""
    return " ".join(value if isinstance(value, str) else _json(value) for value in find(obj, path))


def refusal(error: ApiError, *, creating: bool = False) -> str:
    """The line of an answer that is an error; `creating` is of `kubectl create -f -`."""
    message = str(error).partition(f": HTTP {error.status}: ")[2] or str(error)
    where = 'error when creating "STDIN": ' if creating else ""
    reason = f" ({error.reason})" if error.reason else ""
    return f"Error from server{reason}: {where}{message}"


def nothing(namespace: str) -> str:
    """The line of a list without objects, in a namespace or ("") in all of the cluster."""
    return f"No resources found in {namespace} namespace." if namespace else "No resources found"


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else _json(value)


def _first_line(cell: str) -> str:
    """What is shown of a cell. The other lines of it count for the width of the column all the same."""
    first = re.split("[\f\n\r]", cell, maxsplit=1)[0]
    return first if first == cell else f"{first}..."


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """A column ends where the next begins; the last one ends with its text."""
    widths = [max(_LEAST, _PADDING + max(map(len, column))) for column in zip(*rows, strict=True)]
    return "\n".join(
        "".join(_first_line(cell).ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
        + _first_line(row[-1])
        for row in rows
    )
