"""What scalars of YAML stand for, and which keys of JSON they are, as `sigs.k8s.io/yaml` has it. Pure.

The rules are those that `yaml_documents` names.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from decimal import Decimal
from typing import Any

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, bool | float | None] = {
    form: value
    for words, value in (
        (("y", "yes", "true", "on"), True),
        (("n", "no", "false", "off"), False),
        (("null",), None),
        ((".inf", "+.inf"), math.inf),
        (("-.inf",), -math.inf),
    )
    for word in words
    for form in (word, word.upper(), word.capitalize() if word[0].isalpha() else word.replace("inf", "Inf"))
} | {"": None, "~": None, ".nan": math.nan, ".NaN": math.nan, ".NAN": math.nan}
_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_BINARY = re.compile(r"0b([+-][01]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_FRACTION = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?", re.ASCII)
_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[Tt]\d\d?:\d\d?:\d\d?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)| \d\d?:\d\d?:\d\d?(?:\.\d+)?)?", re.ASCII
)
_TYPES = {"bool": bool, "int": int, "float": float, "null": type(None), "timestamp": str}


class YamlError(ValueError):
    """A text is neither YAML nor JSON, or says what JSON cannot say. `line` and `column` count from 1; 0 is unknown."""

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        where = f"line {line}, column {column}: " if column else f"line {line}: " if line else ""
        super().__init__(where + problem)
        self.problem, self.line, self.column = problem, line, column

    def moved(self, line: int) -> YamlError:
        """The same in a text of which this one is a part that begins at `line`."""
        return YamlError(self.problem, line + max(self.line, 1) - 1, self.column)


def is_merge(event: Any) -> bool:
    """Whether a scalar as a key takes in the members of other mappings."""
    return event.value == "<<" and (event.tag == _TAG + "merge" or (event.tag is None and event.implicit[0]))


def scalar_value(event: Any) -> Any:
    """The value of a scalar, before JSON: numbers may be infinite."""
    tag, text = event.tag, event.value
    if tag is None:
        return _plain(text) if event.implicit[0] else text
    name = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
    if name == "binary":
        try:
            return base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True).decode(errors="replace")
        except ValueError as error:  # binascii.Error is one; characters beyond ASCII are another
            raise YamlError("!!binary: want base64") from error
    if name not in _TYPES:
        return text
    if name == "timestamp" and _DATE.fullmatch(text):
        return text
    value = _plain(text)
    if name == "float" and type(value) is int and value < 1 << 63:
        return float(value)
    if type(value) is not _TYPES[name] or name == "timestamp":
        raise YamlError(f"!!{name}: {text[:40]!r} is none")
    return value


def _plain(text: str) -> Any:
    """What a scalar without quotation marks and without a tag stands for."""
    if text in _WORDS:
        return _WORDS[text]
    plain = text.replace("_", "")
    if text[0] == ".":
        is_float = _FRACTION.fullmatch(text)
    elif text[0] in "+-0123456789":
        if (number := _integer(plain)) is not None:
            return number
        is_float = _FLOAT.fullmatch(plain)
    else:
        return text
    return value if is_float and math.isfinite(value := float(plain)) else text


def _integer(text: str) -> int | None:
    """As `strconv.ParseInt(text, 0, 64)` and `ParseUint` read it; None for what they refuse."""
    if not (match := _INTEGER.fullmatch(text)):
        binary = _BINARY.fullmatch(text)
        number = int(binary[1], 2) if binary else None
        return number if number is not None and -(1 << 63) <= number < 1 << 63 else None
    sign, hexadecimal, binary_digits, octal, decimal = match.groups()
    if decimal and len(decimal) > 20:
        return None
    number = next(
        int(digits, base)
        for digits, base in ((hexadecimal, 16), (binary_digits, 2), (octal, 8), (decimal, 10))
        if digits is not None
    )
    number = -number if sign == "-" else number
    return number if -(1 << 63) <= number < (1 << 63 if sign else 1 << 64) else None


def finite(value: Any) -> Any:
    """A value in JSON as `encoding/json` writes it: 60.0 is 60. Raises `YamlError` for what JSON cannot say."""
    if type(value) is not float:
        return value
    if not math.isfinite(value):
        raise YamlError(f"{value} is no number of JSON")
    return int(Decimal(repr(value))) if value.is_integer() and abs(value) < 1e21 else value


def key_text(value: Any) -> str:
    """The key of JSON that a scalar is. Raises `YamlError` for null and larger numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value < 1 << 63:
        return str(value)
    if isinstance(value, float):
        return _float_key(value)
    raise YamlError(f"a key of a mapping is {'null' if value is None else 'no text'}: want a text")


def _float_key(value: float) -> str:
    """As `strconv.FormatFloat(value, 'g', -1, 32)` writes it: the shortest text of that number of 32 bits."""
    single = _single(value)
    if not math.isfinite(single):
        return ".nan" if math.isnan(single) else ".inf" if single > 0 else "-.inf"
    text = next(text for digits in range(17) if _single(float(text := f"{single:.{digits}e}")) == single)
    return f"{Decimal(text):f}" if -5 < int(text.partition("e")[2]) < 6 else text


def _single(value: float) -> float:
    """The nearest number of 32 bits."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
