"""What the controllers rely on in a stored AppWrapper, which may have any shape: not all are admitted by us. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.kube.conditions import status_of
from app.wire import JSON


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
