"""The faults of fields, in the wording and with the causes of the API server, and the object in which they are found.

The only place that renders faults: `api.failures` puts them into a Status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from app.pace import step
from app.wire import JSON, encode_json

_WORDS = {
    "Required": "Required value",
    "Duplicate": "Duplicate value",
    "NotFound": "Not found",
    "Invalid": "Invalid value",
    "TypeInvalid": "Invalid value",
    "NotSupported": "Unsupported value",
    "Forbidden": "Forbidden",
    "TooLong": "Too long",
    "TooMany": "Too many",
}
MOST_FAULTS = 256
"""Of one object, or of one map of labels; more than a message shows."""
_WITHOUT_VALUE = frozenset({"Required", "Forbidden", "TooLong"})


@dataclass(frozen=True, slots=True)
class FieldError:
    """A fault at `field` (`spec.list[0].name`); `type` is the cause's reason without "FieldValue".

    `declared` are faults of the rules that the API server has as declarations on its types; it reports them last.
    """

    field: str
    type: str
    detail: str = ""
    bad_value: object = None
    declared: bool = False

    @property
    def body(self) -> str:
        """The text without the field, as it stands in a Status cause."""
        text = _WORDS[self.type]
        if self.type not in _WITHOUT_VALUE:
            text = f"{text}: {encode_json(self.bad_value).decode()}"
        return f"{text}: {self.detail}" if self.detail else text

    @property
    def cause(self) -> JSON:
        return {"reason": f"FieldValue{self.type}", "message": self.body, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


@dataclass(slots=True)
class Field:
    """An object at `path` that is checked; `errors` takes the faults of it and of the objects below it.

    Methods take the name of a field of the object; `""` is the object itself. The object has been decoded (`shapes`):
    each value has the type of its field.
    """

    value: JSON
    path: str = ""
    errors: list[FieldError] = field(default_factory=list)

    def at(self, name: str) -> str:
        return child(self.path, name) if name else self.path

    def text(self, name: str) -> str:
        return self.value.get(name) or ""

    def below(self, name: str) -> Field:
        """The object in a field; an empty one where there is none."""
        return Field(self.value.get(name) or {}, self.at(name), self.errors)

    def present(self, *names: str) -> Iterator[Field]:
        """The objects in those of the fields that are there."""
        return (self.below(name) for name in names if name in self.value)

    def entries(self, name: str) -> Iterator[tuple[str, Any]]:
        """The entries of a list, each with its name here: `name[0]`; no more of them after `MOST_FAULTS` faults."""
        for index, entry in enumerate(self.value.get(name) or []):
            if len(self.errors) >= MOST_FAULTS:
                return
            step(4)
            yield f"{name}[{index}]", entry

    def each(self, name: str) -> Iterator[Field]:
        """The objects in a list."""
        for here, entry in self.entries(name):
            yield Field(entry or {}, self.at(here), self.errors)

    def fault(self, name: str, kind: str, detail: str = "", value: object = None) -> None:
        """Add a fault; without `value` it shows what the field has."""
        bad_value = self.value.get(name) if value is None else value
        self.errors.append(FieldError(self.at(name), kind, detail, bad_value))

    def required(self, name: str, detail: str = "") -> bool:
        """Whether the field is there and not empty."""
        if self.value.get(name):
            return True
        self.fault(name, "Required", detail)
        return False

    def one_of(self, name: str, values: Iterable[str], *, optional: bool = False) -> None:
        if name in self.value or not optional:
            self.errors += supported(self.at(name), self.value.get(name, ""), values)

    def number(self, name: str, least: int, detail: str, most: float = inf, *, absent: int | None = None) -> None:
        """A number in these limits. A missing one counts as `absent`; if that is None, it is not checked."""
        number = self.value.get(name, absent)
        if number is not None and not least <= number <= most:
            self.fault(name, "Invalid", detail, number)

    def syntax(self, name: str, faults: Callable[[str], list[str]], *, optional: bool = False) -> None:
        """A text in which `faults` finds nothing; one that is `optional` may be empty."""
        text = self.text(name)
        if text or not optional:
            self.errors += invalid(self.at(name), text, faults(text))

    def named(self, name: str, faults: Callable[[str], list[str]], detail: str = "") -> bool:
        """As `syntax`, for a text that has to be there, for the reason `detail`. Returns whether it is there."""
        present = self.required(name, detail)
        self.syntax(name, faults, optional=True)
        return present

    def texts(self, name: str, faults: Callable[[str], list[str]], *, at: str = "") -> None:
        """As `syntax`, for each text in a list. Faults are reported at its entries, or at another field."""
        for here, text in self.entries(name):
            self.errors += invalid(self.at(at or here), text, faults(text))

    @contextmanager
    def declared(self) -> Iterator[None]:
        """Mark the faults that are found meanwhile as `declared`."""
        before = len(self.errors)
        yield
        self.errors[before:] = [replace(error, declared=True) for error in self.errors[before:]]

    def unique(self, name: str, value: str, seen: set[str]) -> None:
        """Report a value that is in `seen`, and put it there."""
        if value in seen:
            self.fault(name, "Duplicate", "", value)
        seen.add(value)


def supported(path: str, value: Any, values: Iterable[str]) -> list[FieldError]:
    """An enumeration; the values are named in the order in which the server prints them."""
    if value in values:
        return []
    text = "supported values: " + ", ".join(f'"{choice}"' for choice in values)
    return [FieldError(path, "NotSupported", text, value)]


def invalid(path: str, value: object, texts: Iterable[str]) -> list[FieldError]:
    """A fault of one field for each text."""
    return [FieldError(path, "Invalid", text, value) for text in texts]


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
