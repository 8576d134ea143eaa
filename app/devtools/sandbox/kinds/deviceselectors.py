"""What requests, classes and configurations of devices share, in the API server's words: selectors, opaque data. Pure.

The rules are those of resource.k8s.io/v1. A selector that uses CEL which `app.cel` does not have is refused in its
words, as everywhere: no selector is ignored.
"""

from __future__ import annotations

from functools import lru_cache

from app.cel.checking import check_parts
from app.cel.syntax import BadExpression, Node, parse
from app.cel.types import BOOL, DYN, STRING, Type, map_of
from app.devtools.sandbox.kinds.devicenames import bounded, check_declared_driver, too_long
from app.kinds.fielderrors import Field
from app.wire import encode_json

MOST_ENTRIES = 32
"""The limit of requests, constraints, configurations, selectors and results."""
_MOST_OF_EXPRESSION = 10 * 1024
_MOST_OF_PARAMETERS = 10 * 1024
_ATTRIBUTES = map_of(STRING, map_of(STRING, DYN))
_CAPACITY = map_of(STRING, map_of(STRING, Type("kubernetes.Quantity")))
_DEVICE = Type(
    "kubernetes.DRADevice",
    (),
    {"driver": STRING, "attributes": _ATTRIBUTES, "capacity": _CAPACITY, "allowMultipleAllocations": BOOL},
)


@lru_cache(maxsize=256)
def compile_selector(expression: str) -> tuple[Node, Type]:
    """The tree of a selector's expression and its type.

    The variable is `device`, with driver, attributes and capacity by domain and name, and allowMultipleAllocations.
    Raises `BadExpression` for what is not CEL, and for CEL beyond the subset of `app.cel`.
    """
    node = parse(expression)
    return node, check_parts(expression, node, {"device": _DEVICE})[id(node)]


def check_selectors(holder: Field) -> None:
    """The list `selectors` of a request or class."""
    if not bounded(holder, "selectors", MOST_ENTRIES):
        return
    for selector in holder.each("selectors"):
        if "cel" not in selector.value:
            selector.fault("cel", "Required")
            continue
        cel = selector.below("cel")
        if not too_long(cel, "expression", _MOST_OF_EXPRESSION):
            _check_expression(cel)


def _check_expression(cel: Field) -> None:
    try:
        _, kind = compile_selector(cel.text("expression"))
    except BadExpression as error:
        cel.fault("expression", "Invalid", f"compilation failed: {error}", cel.text("expression"))
        return
    if kind.name not in ("bool", "dyn"):
        cel.fault("expression", "Invalid", f"must evaluate to bool or the unknown type, not {kind}")


def check_opaque(configuration: Field) -> None:
    """The one kind of configuration that there is: parameters that the driver alone reads."""
    if "opaque" not in configuration.value:
        configuration.fault("opaque", "Required")
        return
    opaque = configuration.below("opaque")
    check_declared_driver(opaque, "driver")
    check_object(opaque, "parameters", _MOST_OF_PARAMETERS, required=True)


def check_object(holder: Field, name: str, most: int, *, required: bool) -> None:
    """A field that holds any JSON object of at most `most` bytes.

    Its length is that of compact JSON. The API server counts what was sent, white space too.
    """
    value = holder.value.get(name)
    if value is None:
        if required:
            holder.fault(name, "Required")
    elif len(encode_json(value)) > most:
        holder.fault(name, "TooLong", f"may not be more than {most} bytes")
    elif not isinstance(value, dict):
        holder.fault(name, "Invalid", "must be a valid JSON object", "<value omitted>")
