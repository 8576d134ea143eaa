"""Kubernetes resource quantities, as resource.Quantity of the API: exact values, never floats."""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_UP, Context, Decimal
from functools import lru_cache

from app.numbers import NumberError, shown, worded
from app.numbers import written as digits_of

_FORM = re.compile(r"([+-]?)(\d*)(\.\d*)?([eEinumkKMGTP]*[+-]?\d*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?0*\d{1,6})", re.ASCII)
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_LIMIT = Decimal(2**63 - 1)
_MAX_LENGTH = 1024
# Wide enough for every text of that length; the default context would round some of them.
_EXACT = Context(prec=2 * _MAX_LENGTH, rounding=ROUND_UP, Emin=MIN_EMIN, Emax=MAX_EMAX)
_BAD_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BAD_SUFFIX = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """The value is not a quantity. The message names it; `fault` is what an API server says."""

    def __init__(self, value: object, fault: str) -> None:
        text = worded(value)
        quoted = shown(value) if len(text) <= 64 else f"{text[:64]!r}…"
        expected = (
            "a number with an optional suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3)"
            if isinstance(value, str)
            else 'text such as "500m", "2" or "1Gi"'
        )
        super().__init__(f"{quoted} is not a quantity: expected {expected}")
        self.fault = fault


def parse(value: object) -> Decimal:
    """The exact value of a quantity as it stands in an object: text, or a JSON number. Raises QuantityError.

    Fractions below a billionth are rounded away from zero. What has a binary suffix is at most 2^63-1.
    """
    return _read(_text(value))[0]


def added(left: Decimal, right: Decimal) -> Decimal:
    """The sum of two quantities; `+` raises where one has a million digits, as `9e999999`."""
    return _EXACT.add(left, right)


def parse_integer(value: object) -> int:
    """The value of a quantity that must be whole and not negative, as counts of devices are; ValueError otherwise.

    Values beyond 64 bits are cut to the bound.
    """
    number = parse(value)
    if number < 0 or number != number.to_integral_value():
        raise ValueError(f"{shown(value)} is not a whole number that is zero or more")
    return int(min(number, _LIMIT))


def canonical(value: object, places: int = 9) -> str:
    """How an API server writes a quantity, rounded up to so many decimal places; raises QuantityError."""
    text = _text(value)
    number, form, kept = _read(text)
    if number == 0:
        return "0"
    rounded = _round_up(number, places)
    if kept and rounded == number:
        return text.strip(" ")
    return _written(rounded, form)


def total(start: object, *, plus: object = 0, minus: object = 0) -> str:
    """`start + plus - minus`, as an API server writes it: in the form of `start`, or of `plus` where `start` is zero.

    Raises QuantityError.
    """
    number = parse(start)
    return written(added(added(number, parse(plus)), -parse(minus)), like=start if number else plus)


def written(number: Decimal, *, like: object) -> str:
    """A number as an API server writes it in the form of `like` (decimal, binary, exponent). Raises QuantityError."""
    return _written(_round_up(number, 9), _read(_text(like))[1])


def _written(rounded: Decimal, form: str) -> str:
    if rounded == 0:
        return "0"
    if form == "binary" and abs(rounded) >= 1024 and rounded == rounded.to_integral_value():
        whole, power = int(rounded), 0
        while whole % 1024 == 0 and power < len(_BINARY) - 1:
            whole, power = whole // 1024, power + 1
        return f"{whole}{_BINARY[power]}"
    plain = rounded.normalize(_EXACT)
    sign, digits, _ = plain.as_tuple()
    zeros = _exponent(plain) % 3
    exponent = _exponent(plain) - zeros
    written = "-" * sign + "".join(map(str, digits)) + "0" * zeros
    if form == "exponent":
        return f"{written}e{exponent}" if exponent else written
    return f"{written}{_SUFFIXES.get(exponent, '')}"  # the server has no suffix beyond E, and leaves it out


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(value, _BAD_FORM)
    if isinstance(value, float):
        return str(value)
    try:
        return value if isinstance(value, str) else digits_of(value)
    except NumberError:
        raise QuantityError(value, _BAD_FORM) from None


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[Decimal, str, bool]:
    """The value, the form (decimal, exponent or binary), and whether the server keeps the text as it is."""
    plain = text.strip(" ")
    match = _FORM.fullmatch(plain) if len(plain) <= _MAX_LENGTH else None
    if match is None or not plain:
        raise QuantityError(text, _BAD_FORM)
    sign, whole, fraction, suffix = match.groups(default="")
    number = _EXACT.create_decimal(f"{sign}{whole or 0}{fraction}")
    short = len(fraction) <= 1 and len(whole.lstrip("0")) <= 18
    if suffix and suffix in _BINARY:
        number = _EXACT.multiply(number, Decimal(1024 ** _BINARY.index(suffix)))
        number = max(-_LIMIT, min(_LIMIT, _round_up(number, 9)))
        return number, "binary", False
    exponent = _EXPONENT.fullmatch(suffix)
    if suffix not in _DECIMAL and exponent is None:
        raise QuantityError(text, _BAD_SUFFIX)
    power = int(exponent[1]) if exponent else _DECIMAL[suffix]
    kept = short and power % 3 == 0 and power >= -9 and number % 1000 != 0
    return _round_up(number.scaleb(power, _EXACT), 9), "exponent" if exponent else "decimal", kept


def _round_up(number: Decimal, places: int) -> Decimal:
    """Away from zero."""
    return number.quantize(Decimal((0, (1,), -places)), context=_EXACT) if _exponent(number) < -places else number


def _exponent(number: Decimal) -> int:
    """Of the last digit."""
    return number.adjusted() - len(number.as_tuple().digits) + 1
