"""What hostile clients send: texts, JSON and real documents with pieces put in that nobody expects there."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

JSON = dict[str, Any]


def cases(number: int) -> settings:
    """So many cases, the same ones at every run."""
    return settings(
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


CONTROLS = [
    "\x00",
    "\x07\x1b[2J\x1b]0;x\x07",
    "a\nb",
    "\r",
    "\x7f",
    "\x85",
    "\x9b31m",
    "\u2028",
    "\u202eevil",
    "\ufeff",
]
NAMES = [
    "../../..",
    "/",
    "%00",
    "a" * 300,
    "A_B",
    "-",
    ".",
    "{{7*7}}",
    "$(id)",
    "'; --",
    "\U0001f600",
    "é",
    "ǆ",
    "\u0130",
]
texts = st.sampled_from(CONTROLS + NAMES) | st.text(max_size=12) | st.text(st.characters(), max_size=6)
"""Also with lone surrogates."""

numbers = (
    st.sampled_from([0, -1, 1, 2**31, 2**63, -(2**63) - 1, 2**64, 10**400, 1e308, 5e-324, 0.1, -0.0]) | st.integers()
)
scalars = st.none() | st.booleans() | numbers | texts
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=10
)

_names = st.sampled_from(["foo-network", "bar-network", "default/foo-network", "missing", "", "..", "Foo", "other/x"])
_interfaces = st.sampled_from(["", "@eth1", "@", "@@", "@é", "@" + "x" * 20])
_elements = st.builds(lambda name, interface: name + interface, _names, _interfaces)
_objects = st.fixed_dictionaries(
    {"name": _names | anything},
    optional={
        "namespace": st.sampled_from(["default", "kube-system", "..", ""]) | anything,
        "interface": texts,
        "ips": anything,
        "mac": texts,
        "default-route": anything,
        "cni-args": anything,
    },
)
networks = (
    st.lists(_elements, max_size=6).map(",".join)
    | st.lists(_elements, max_size=4).map(" , ".join)
    | st.lists(_objects, max_size=4).map(json.dumps)
    | anything.map(json.dumps)
    | st.sampled_from(
        ["[" * 10_000, "[{" * 5_000, "a," * 50_000, "a" * 262_144, '[{"name":"a"}' * 3, "[]", "null", "\x00"]
    )
    | texts
)
"""Values of the networks annotation: by its grammar, near it, and far from it."""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document, its own too."""
    found = [path]
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        found += places(item, (*path, key))
    return found


@st.composite
def changed(draw: st.DrawFn, document: JSON, *, within: tuple[Any, ...] = ()) -> JSON:
    """The document with one to four of its values (below `within`) replaced, taken away, or joined by odd ones."""
    made = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 4))):
        root: Any = made
        for step in within:
            root = root[step]
        paths = [path for path in places(root) if path]
        if not paths:
            break
        *way, last = draw(st.sampled_from(paths))
        target = root
        for step in way:
            target = target[step]
        match draw(st.sampled_from(["replace", "replace", "remove", "add", "repeat"])):
            case "replace":
                target[last] = draw(anything)
            case "remove":
                del target[last]
            case "add" if isinstance(target, dict):
                target[draw(texts)] = draw(anything)
            case _:
                if isinstance(target, list):
                    target += [copy.deepcopy(target[last])] * draw(st.integers(1, 3))
                else:
                    target[last] = draw(anything)
    return made


@st.composite
def broken(draw: st.DrawFn, content: bytes) -> bytes:
    """The bytes cut off, with some flipped, with a piece doubled or put in."""
    at = draw(st.integers(0, max(0, len(content) - 1)))
    match draw(st.sampled_from(["cut", "flip", "double", "insert"])):
        case "cut":
            return content[:at]
        case "flip":
            return content[:at] + bytes([draw(st.integers(0, 255))]) + content[at + 1 :]
        case "double":
            return content[:at] + content[at // 2 :]
        case _:
            return content[:at] + draw(st.binary(min_size=1, max_size=20)) + content[at:]
