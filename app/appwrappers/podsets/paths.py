"""Paths of podSets: `template`, then any number of `.field` and `[index]`. Pure.

The first element stands for the wrapped object, so that the path of a Pod's own template is `template`. A field whose
name has a dot or a bracket cannot be reached.

A stored AppWrapper may have any shape, for not all are admitted by us: the controllers rely on what is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from app.kube.conditions import status_of
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
    steps: list[str | int] = []
    position = len(_ROOT)
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise PathError(f"at '{path[:position]}': want .field or [index], got {path[position:]!r}")
        field, index = match.groups()
        steps.append(field if index is None else whole(index))
        position = match.end()
    return tuple(steps)


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
    values = found_at(template, path)
    return [f"{path}[{index}]" for index in range(len(values))] if isinstance(values, list) else []


def integer_at(template: JSON, path: str, *, otherwise: int) -> int:
    """The integer at the path, `otherwise` where there is nothing. Raises ValueError for what is no integer."""
    number = found_at(template, path)
    if number is None:
        return otherwise
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(f"{path}: want an integer, got {number!r}")  # noqa: TRY004  a value of the user, not of a caller
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{path}: want an integer of 32 bits")
    return number


def pod_template_at(template: JSON, path: str) -> JSON:
    """The Pod template at the path: an object with `spec`. Raises PathError."""
    pod_template = value_at(template, path)
    if not isinstance(pod_template, dict):
        raise PathError(f"'{path}' is not an object")
    if not isinstance(pod_template.get("spec"), dict):
        raise PathError(f"'{path}' has no spec, as a Pod template has")
    return pod_template


def component_problem(component: Any) -> str:
    """What keeps the object of a component from being made, with the path of the field; "" where nothing does."""
    template = component.get("template") if isinstance(component, dict) else None
    if not isinstance(template, dict) or not all(_is_text(template.get(field)) for field in ("apiVersion", "kind")):
        return "template: want an object with apiVersion and kind"
    if problem := metadata_problem(template.get("metadata")):
        return f"template.metadata{problem}"
    pod_sets = component.get("podSets")
    if pod_sets is not None and not (isinstance(pod_sets, list) and all(map(_is_pod_set, pod_sets))):
        return "podSets: want a list of objects with path"
    return ""


def metadata_problem(metadata: Any) -> str:
    """Why no object can have this metadata, after the path of it; "" where one can. Without a name it gets one."""
    if not isinstance(metadata, dict):
        return ": want an object, with a name or a generateName"
    texts = ("name", "generateName", "namespace")
    return next((f".{field}: want text" for field in texts if not isinstance(metadata.get(field), str | None)), "")


def usable_status(status: Any) -> JSON:
    """The status without the fields whose shape is not that of the definition, as if they had not been written."""
    return {
        field: value
        for field, value in status_of({"status": status}).items()
        if field not in _FIELDS or _FIELDS[field](value)
    }


def is_text_map(value: Any) -> bool:
    """Texts by names, as annotations are."""
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _is_pod_set(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_text(value.get("path")):
        return False
    replicas, annotations = value.get("replicas"), value.get("annotations")
    return (replicas is None or _is_count(replicas)) and (annotations is None or is_text_map(annotations))


def _is_component_status(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_text(value.get("kind"))
        and _is_text(value.get("apiVersion"))
        and isinstance(value.get("name"), str)
        and isinstance(value.get("podSets"), list)
        and all(map(_is_pod_set, value["podSets"]))
        and status_of({"status": value}) is value
    )


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "phase": lambda value: isinstance(value, str),
    "resettingCount": _is_count,
    "componentStatus": lambda value: isinstance(value, list) and all(map(_is_component_status, value)),
}
