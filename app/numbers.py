"""Whole numbers as texts, within a bound: one that a user gives or computes is never too long to be written.

Python refuses to make a text of more than 4,300 digits of a number, and the other way round, and takes quadratic time
below that. Nothing that Kubernetes counts has more than 20 digits. Pure.
"""

from __future__ import annotations

from typing import TypeGuard

MOST_DIGITS = 309
"""What the largest number of JSON has as other languages read it, an IEEE 754 double."""
_MOST = 10**MOST_DIGITS - 1
LONGEST = f"a whole number has more than {MOST_DIGITS} digits"


class NumberError(ValueError):
    """A whole number that is too long, or a text that is none."""


def bounded(number: int) -> int:
    """The number; raises NumberError where it has more than `MOST_DIGITS` digits."""
    if not -_MOST <= number <= _MOST:
        raise NumberError(LONGEST)
    return number


def written(number: int) -> str:
    """The digits of the number. Raises NumberError as `bounded`."""
    return str(bounded(number))


def whole(text: str) -> int:
    """The number that ASCII digits write, with a sign or without. Raises NumberError for any other text."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()):
        raise NumberError("want a whole number")
    if len(digits.lstrip("0")) > MOST_DIGITS:
        raise NumberError(LONGEST)
    number = int(digits.lstrip("0") or 0)
    return -number if text[:1] == "-" else number


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a number without a fraction, as JSON has it: true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def whole_or(text: object, otherwise: int) -> int:
    """The number that a field of an object has; `otherwise` for a value that is no whole number of zero or more."""
    if is_whole(text):
        return text if 0 <= text <= _MOST else otherwise
    try:
        return whole(text) if isinstance(text, str) and text[:1] not in ("+", "-") else otherwise
    except NumberError:
        return otherwise


def worded(value: object) -> str:
    """A text as it is, anything else as `shown`."""
    return value if isinstance(value, str) else shown(value)


def shown(value: object) -> str:
    """How a message quotes a value of any JSON type; a number that is too long is named, not written."""
    try:
        return repr(value)
    except ValueError:
        return f"a value in which {LONGEST}"
