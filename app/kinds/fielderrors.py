"""One fault of one field, in the wording and with the causes of the API server.

The only place that renders faults: `api.failures` puts them into a Status, whatever room found them.
"""

from __future__ import annotations

from dataclasses import dataclass

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
_WITHOUT_VALUE = frozenset({"Required", "Forbidden", "TooLong"})


@dataclass(frozen=True, slots=True)
class FieldError:
    """A fault at `field` (`spec.list[0].name`); `type` is the cause's reason without "FieldValue"."""

    field: str
    type: str
    detail: str = ""
    bad_value: object = None

    @property
    def body(self) -> str:
        """The text without the field, as it stands in a Status cause."""
        text = _WORDS[self.type]
        if self.type not in _WITHOUT_VALUE:
            text = f"{text}: {_print_value(self.bad_value)}"
        return f"{text}: {self.detail}" if self.detail else text

    @property
    def cause(self) -> JSON:
        return {"reason": f"FieldValue{self.type}", "message": self.body, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def _print_value(value: object) -> str:
    return "null" if value is None else encode_json(value).decode()


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
