"""Validation of a list of conditions (`metav1.Condition`), in the API server's words. Pure."""

from __future__ import annotations

import re

from app.devtools.sandbox.kinds.devicenames import too_long
from app.kinds.fielderrors import Field
from app.kinds.name_syntax import qualified_faults

_STATES = ("False", "True", "Unknown")
_REASON = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_FORM = re.compile(_REASON, re.ASCII)
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_MOST_OF_REASON = 1024
_MOST_OF_MESSAGE = 32 * 1024


def check_conditions(holder: Field) -> None:
    """The list `conditions` of an object; each type once."""
    seen: set[str] = set()
    for here, entry in holder.entries("conditions"):
        condition = Field(entry, holder.at(here), holder.errors)
        holder.unique(here, condition.text("type"), seen)
        if condition.required("type", "is required"):
            condition.syntax("type", qualified_faults)
        condition.one_of("status", _STATES)
        condition.number("observedGeneration", 0, "must be greater than or equal to zero")
        condition.required("lastTransitionTime")
        _check_words(condition)


def _check_words(condition: Field) -> None:
    reason = condition.text("reason")
    if condition.required("reason"):
        if not _REASON_FORM.fullmatch(reason):
            condition.fault("reason", "Invalid", _REASON_TEXT)
        too_long(condition, "reason", _MOST_OF_REASON)
    too_long(condition, "message", _MOST_OF_MESSAGE)
