"""Resource quantities as the API server reads and rewrites them: `1000m` becomes `1`, `1024Mi` becomes `1Gi`.

Pure. Kept apart from the product's own quantity code on purpose: the sandbox is what that code is tested against.
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal
from functools import lru_cache

_FORM = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?", re.ASCII)
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
FORMAT_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class QuantityError(ValueError):
    """The text is no quantity."""


@lru_cache(maxsize=4096)
def amount(text: str) -> Decimal:
    """The number that a quantity stands for; raises QuantityError."""
    return _read(text)[0]


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The form in which the API server stores it; raises QuantityError."""
    value, form = _read(text)
    if value == 0:
        return "0"
    if form == "binary" and abs(value) >= 1024 and value == value.to_integral_value():
        whole, power = int(value), 0
        while whole % 1024 == 0 and power < len(_BINARY) - 1:
            whole, power = whole // 1024, power + 1
        return f"{whole}{_BINARY[power]}"
    nano = int((value * 10**9).to_integral_value(rounding=ROUND_UP))
    exponent = -9
    while nano % 1000 == 0 and exponent < 18:
        nano, exponent = nano // 1000, exponent + 3
    if form == "exponent":
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_SUFFIX[exponent]}"


def _read(text: str) -> tuple[Decimal, str]:
    found = _FORM.fullmatch(text) if len(text) < 64 else None
    if found is None:
        raise QuantityError(FORMAT_ERROR)
    number, suffix = Decimal(found[1]), found[2] or ""
    if suffix in _BINARY and suffix:
        return number * 1024 ** _BINARY.index(suffix), "binary"
    if suffix in _DECIMAL:
        return number.scaleb(_DECIMAL[suffix]), "decimal"
    power = int(suffix[1:])
    if abs(power) > 40:
        raise QuantityError(FORMAT_ERROR)
    return number.scaleb(power), "exponent"
