"""Which objects a read is about: label and field selectors over objects in memory, and whether a change concerns one.

Pure.
"""

from __future__ import annotations

from functools import lru_cache

from app.kube.reflector import Scope
from app.kube.resources import Resource
from app.kube.selectors import LabelSelector, label_selector_from_text
from app.kube.store import Key
from app.wire import JSON

FieldTerms = tuple[tuple[tuple[str, ...], bool, str], ...]
"""The path of each field, whether it has to be equal, and the value."""


@lru_cache(maxsize=4096)
def label_selector(text: str) -> LabelSelector:
    """Raises ValueError for a text that is no selector."""
    return label_selector_from_text(text)


@lru_cache(maxsize=4096)
def field_terms(text: str) -> FieldTerms:
    """The terms of a field selector: `a.b=c`, `a.b==c` and `a.b!=c`, with commas between. Raises ValueError."""
    terms = []
    for term in filter(None, text.split(",")):
        path, sign, value = term.partition("!=")
        if not sign:
            path, sign, value = term.partition("=")
            value = value.removeprefix("=")
        if not sign or not path.strip():
            raise ValueError(f"{term!r} is no term of a field selector: want FIELD=VALUE or FIELD!=VALUE")
        terms.append((tuple(path.strip().split(".")), sign == "=", value))
    return tuple(terms)


def field_of(obj: JSON, path: tuple[str, ...]) -> str:
    """The text of a field, "" if it is not set, as an API server compares it."""
    value: object = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def labels_of(obj: JSON) -> dict[str, str]:
    labels = obj["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}


def selected(obj: JSON, labels: LabelSelector, fields: FieldTerms) -> bool:
    """Whether an object has these labels and fields."""
    return labels.matches(labels_of(obj)) and all(
        (field_of(obj, path) == value) == equal for path, equal, value in fields
    )


def concerns(scope: Scope, resource: Resource, key: Key, old: JSON | None, new: JSON | None) -> bool:
    """Whether what a read of this scope returned may differ after a change of an object."""
    if scope.resource != resource or scope.namespace not in (None, key[0]) or scope.name not in ("", key[1]):
        return False
    if not scope.label_selector and not scope.field_selector:
        return True
    labels, fields = label_selector(scope.label_selector), field_terms(scope.field_selector)
    return any(obj is not None and selected(obj, labels, fields) for obj in (old, new))
