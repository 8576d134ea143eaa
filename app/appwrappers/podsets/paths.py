"""Paths of podSets: `template`, then any number of `.field` and `[index]`. Pure.

The first element stands for the wrapped object, so that the path of a Pod's own template is `template`. A field whose
name has a dot or a bracket cannot be reached.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from app.numbers import whole
from app.wire import JSON

_ROOT = "template"
MOST_PATH = 1024
"""Characters of a path; those of known kinds have less than 80."""
_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")


class PathError(ValueError):
    """A path that is none, or that leads to nothing; the message says at which place."""


@lru_cache(maxsize=1024)
def steps(path: str) -> tuple[str | int, ...]:
    """The fields and indices after the first element. Raises PathError."""
    if len(path) > MOST_PATH:
        raise PathError(f"want at most {MOST_PATH} characters, got {len(path)}")
    if not path.startswith(_ROOT):
        raise PathError(f"the first element must be '{_ROOT}', as in template.spec.template")
    found: list[str | int] = []
    position = len(_ROOT)
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise PathError(f"at '{path[:position]}': want .field or [index], got {path[position:]!r}")
        field, index = match.groups()
        found.append(field if index is None else whole(index))
        position = match.end()
    return tuple(found)


def value_at(template: JSON, path: str) -> Any:
    """The value at the path in a wrapped object. Raises PathError where there is none."""
    value: Any = template
    passed = _ROOT
    for step in steps(path):
        if isinstance(step, str):
            if not isinstance(value, dict):
                raise PathError(f"'{passed}' is not an object")
            if step not in value:
                raise PathError(f"'{passed}' has no field '{step}'")
            value, passed = value[step], f"{passed}.{step}"
        else:
            if not isinstance(value, list):
                raise PathError(f"'{passed}' is not a list")
            if step >= len(value):
                raise PathError(f"'{passed}' has {len(value)} elements, and no element {step}")
            value, passed = value[step], f"{passed}[{step}]"
    return value


def found_at(template: JSON, path: str) -> Any:
    """The value at the path, None where there is none."""
    try:
        return value_at(template, path)
    except PathError:
        return None


def elements_at(template: JSON, path: str) -> list[str]:
    """The paths of the elements of a list; none where there is no list."""
    found = found_at(template, path)
    return [f"{path}[{index}]" for index in range(len(found))] if isinstance(found, list) else []


def integer_at(template: JSON, path: str, *, otherwise: int) -> int:
    """The integer at the path, `otherwise` where there is nothing. Raises ValueError for what is no integer."""
    found = found_at(template, path)
    if found is None:
        return otherwise
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(f"{path}: want an integer, got {found!r}")  # noqa: TRY004  a value of the user, not of a caller
    if not -(2**31) <= found < 2**31:
        raise ValueError(f"{path}: want an integer of 32 bits")
    return found


def pod_template_at(template: JSON, path: str) -> JSON:
    """The Pod template at the path: an object with `spec`. Raises PathError."""
    found = value_at(template, path)
    if not isinstance(found, dict):
        raise PathError(f"'{path}' is not an object")
    if not isinstance(found.get("spec"), dict):
        raise PathError(f"'{path}' has no spec, as a Pod template has")
    return found
