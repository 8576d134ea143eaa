"""Kubernetes resource quantities: exact values, never floats.

Owns the grammar of the API's resource.Quantity (signed number with a binary, decimal or exponent suffix), its rounding
up to a billionth and its bounds of 64 bits.
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal

from app.text import quoted

_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([eE][+-]?\d{1,6})|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?))", re.ASCII)
_BINARY_SUFFIXES = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_DECIMAL_SUFFIXES = ["", "k", "M", "G", "T", "P", "E"]
_SCALE: dict[str, Decimal] = {
    **{suffix: Decimal(1024**power) for power, suffix in enumerate(_BINARY_SUFFIXES)},
    **{suffix: Decimal(1000**power) for power, suffix in enumerate(_DECIMAL_SUFFIXES)},
    "m": Decimal("1e-3"),
    "u": Decimal("1e-6"),
    "n": Decimal("1e-9"),
}
_LIMIT = Decimal(2**63 - 1)
_NANO = Decimal("1e-9")
# Wide enough for 64-bit integers with nine decimals; the default context would round some of them.
_EXACT = Context(prec=64, rounding=ROUND_UP, Emin=-999999, Emax=999999)
_MAX_LENGTH = 64


def parse(text: str | float) -> Decimal:
    """The exact value of a quantity as it stands in an object: text, or a JSON number.

    Fractions below a billionth are rounded away from zero and values beyond 64 bits are cut to the bound, as the API
    server does. Raises ValueError that names the text.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        # What stands in an object is data, however wrong its type: callers expect one kind of error.
        raise ValueError(  # noqa: TRY004
            f'{text!r} is not a quantity: expected text such as "500m", "2" or "1Gi"'
        )
    written = str(text)
    match = _FORM.fullmatch(written) if len(written) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(
            f"{quoted(written, _MAX_LENGTH)} is not a quantity: expected a number with an optional suffix "
            "(n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3)"
        )
    sign, number, exponent, suffix = match.groups()
    value = _EXACT.create_decimal(number)
    if value:
        value = _scaled(value, int(exponent[1:])) if exponent else _EXACT.multiply(value, _SCALE[suffix])
        value = min(value, _LIMIT)
        value = value if value == value.to_integral_value() else value.quantize(_NANO, context=_EXACT)
    return -value if sign == "-" else value


def parse_integer(text: str | float) -> int:
    """The value of a quantity that must be whole and not negative, as counts of devices are; ValueError otherwise."""
    value = parse(text)
    if value != value.to_integral_value() or value < 0:
        raise ValueError(f"{str(text)!r} is not a whole number that is zero or more")
    return int(value)


def is_integer(text: str | float) -> bool:
    """True for a well-formed quantity that `parse_integer` accepts."""
    try:
        parse_integer(text)
    except ValueError:
        return False
    return True


def canonical(value: int, *, binary: bool = False) -> str:
    """How the API server writes a whole number: the largest suffix that needs no fraction (1000 is "1k")."""
    step, suffixes = (1024, _BINARY_SUFFIXES) if binary else (1000, _DECIMAL_SUFFIXES)
    power = 0
    while value and value % step == 0 and power < len(suffixes) - 1:
        value //= step
        power += 1
    return f"{value}{suffixes[power]}"


def _scaled(value: Decimal, exponent: int) -> Decimal:
    # Compared by magnitude first, so that 1e999999 costs nothing.
    magnitude = value.adjusted() + exponent
    if magnitude > 19:
        return _LIMIT
    if magnitude < -10:
        return _NANO
    return value.scaleb(exponent, context=_EXACT)
