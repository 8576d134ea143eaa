"""Inputs of the fuzz: by the structure of each kind, near it, and broken. The same number gives the same input."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

from tests.fuzz.growing import grown, growths
from tests.fuzz.kinds import OPERATIONS, Kind, body_of, kinds, object_of

JSON = dict[str, Any]
_KINDS = kinds()
_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 1e308, 5e-324, 0.1, 10**300),
    *("", " ", "x", "..", "../..", "/", "%00", "-", "A_B", "a" * 300, "9" * 5000, "1e999999999", "0-4294967295"),
    *("\x00", "a\nb", "\x1b[2J", "\u202eevil", "\ufeff", "\U0001f600", "é", "İ", "\u2028", "{{7*7}}", "$(id)"),
    *([], {}, [None], [[]], {"": None}, {"a": {"b": [1, "x", None]}}, ["x"] * 50),
    *("foo-network", "missing", "10.1.2.3", "::/0", "2026-01-31T12:00:00Z", '[{"name":"foo-network"}]', "[" * 2000),
)
_LARGEST = 512 * 1024
_LARGE = 0.01
"""The part of the inputs that are larger than `_USUAL` bytes: their number bounds what a run takes."""
_USUAL = 16 * 1024


def input_of(seed: int, number: int) -> tuple[str, bytes, str]:
    """A path, a body, and what it is."""
    chosen = random.Random(f"{seed}/{number}")
    kind = chosen.choice(_KINDS)
    operation = chosen.choice(kind.operations if chosen.random() < 0.9 else (*OPERATIONS, "CONNECT"))
    base = object_of(kind)
    obj, said = _changed(chosen, base)
    old = base if chosen.random() < 0.5 else _changed(chosen, base)[0] if chosen.random() < 0.5 else obj
    body = body_of(kind, operation, obj, None if chosen.random() < 0.05 else old)
    if chosen.random() < 0.03:
        body, said = _broken(chosen, body), [*said, "broken bytes"]
    path = kind.path if chosen.random() < 0.9 else chosen.choice(["/mutate", "/validate"])
    return path, body, f"{_named(kind, operation)}: {', '.join(said) or 'as it is'}"


def _named(kind: Kind, operation: str) -> str:
    return f"{kind.name} {operation}"


def _changed(chosen: random.Random, base: JSON) -> tuple[JSON, list[str]]:
    """The object with up to three members grown, and up to three values that nobody expects there."""
    obj, said = base, list[str]()
    found = [*growths(base)]
    largest = _LARGEST if chosen.random() < _LARGE else _USUAL
    for growth in sorted(chosen.sample(found, chosen.randint(0, 3)), key=lambda one: -len(one.path)):
        size = int(math.exp(chosen.uniform(math.log(16), math.log(largest))))
        try:
            obj = grown(obj, growth, size)
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # another growth has taken its place
        said.append(f"{growth} {size}")
    obj = copy.deepcopy(grown(obj, found[0], 0) if obj is base else obj)
    for _ in range(chosen.choice([0, 0, 1, 1, 2, 3])):
        said.append(_put(chosen, obj))
    return obj, said


def _put(chosen: random.Random, obj: JSON) -> str:
    """Replace one value somewhere in the object, take it away, or put another one beside it."""
    holder: Any = obj
    way: list[str | int] = []
    while True:
        keys: list[Any] = list(holder) if isinstance(holder, dict) else [*range(min(len(holder), 3))]
        if not keys:
            return "nothing"
        key = chosen.choice(keys)
        way.append(key)
        inner = holder[key]
        if isinstance(inner, (dict, list)) and inner and chosen.random() < 0.9:
            holder = inner
            continue
        if way == ["apiVersion"] or way == ["kind"]:
            return "nothing"
        what = chosen.choice(["replace", "replace", "remove", "beside"])
        if what == "remove":
            del holder[key]
        elif what == "beside" and isinstance(holder, dict):
            holder[str(chosen.choice(_ODD))[:300]] = _odd(chosen)
        else:
            holder[key] = _odd(chosen)
        return f"{what} {'.'.join(map(str, way))}"


def _odd(chosen: random.Random) -> Any:
    """A value of its own: one that inputs share would keep what another of them has put into it."""
    return copy.deepcopy(chosen.choice(_ODD))


def _broken(chosen: random.Random, body: bytes) -> bytes:
    at = chosen.randrange(len(body))
    match chosen.choice(["cut", "flip", "double", "insert"]):
        case "cut":
            return body[:at]
        case "flip":
            return body[:at] + bytes([chosen.randrange(256)]) + body[at + 1 :]
        case "double":
            return body[:at] + body[at // 2 :]
        case _:
            return body[:at] + chosen.randbytes(chosen.randint(1, 20)) + body[at:]
