"""Whether a device is what selectors ask for. Pure.

Selectors are CEL over `device.driver`, `device.attributes` and `device.capacity`. What lies beyond the sandbox's CEL
(`semver`, `quantity`, `cel.bind`, optional members) is refused, and never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.cel.calls import NoValue
from app.cel.checking import check_parts
from app.cel.syntax import BadExpression, Node, parse
from app.cel.types import BOOL, DYN, STRING, Type, map_of
from app.cel.values import evaluate
from app.devtools.sandbox.standins.devices.pools import Device
from app.devtools.sandbox.standins.placement import is_tolerated
from app.wire import JSON

_DOMAINS = map_of(STRING, map_of(STRING, DYN))
_DEVICE = Type(
    "kubernetes.DRADevice",
    (),
    {"driver": STRING, "attributes": _DOMAINS, "capacity": _DOMAINS, "allowMultipleAllocations": BOOL},
)


class Refused(Exception):
    """A claim that cannot be judged. The text says where and why, as the scheduler's error does."""


def selects(selectors: Sequence[JSON], device: Device) -> bool:
    """Whether all selectors are true of the device. Raises Refused."""
    for index, selector in enumerate(selectors):
        try:
            node, domains = _compiled((selector.get("cel") or {}).get("expression") or "")
            chosen = evaluate(node, {"device": _seen(device, domains)})
        except BadExpression as error:
            raise Refused(f"selector #{index}: CEL compile error: {error}") from error
        except NoValue as error:
            raise Refused(f"selector #{index}: CEL runtime error: {error}") from error
        if chosen is not True:
            return False
    return True


def tolerates(request: JSON, device: Device) -> bool:
    """Whether the request tolerates the taints that keep the device from new Pods."""
    hard = [taint for taint in device.taints if taint.get("effect") in ("NoSchedule", "NoExecute")]
    return all(is_tolerated(taint, request.get("tolerations") or ()) for taint in hard)


@lru_cache(maxsize=256)
def _compiled(expression: str) -> tuple[Node, frozenset[str]]:
    node = parse(expression)
    kind = check_parts(expression, node, {"device": _DEVICE})[id(node)]
    if kind.name not in ("bool", "dyn"):
        raise BadExpression("must evaluate to bool or the unknown type, not " + str(kind))
    return node, _indexed(node)


def _indexed(node: Node) -> frozenset[str]:
    """The domains that are looked up. The API has an empty map for one that the device lacks; `in` still says so."""
    looked_up: set[str] = set()
    mentioned: set[str] = set()
    for part in _walk(node):
        for child in part.parts:
            if child.kind == "literal" and isinstance(child.value, str):
                (looked_up if part.kind == "index" else mentioned).add(child.value)
    return frozenset(looked_up - mentioned)


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts:
        yield from _walk(part)


def _seen(device: Device, domains: frozenset[str]) -> JSON:
    return {
        "driver": device.key.driver,
        "attributes": _by_domain(device.attributes, domains),
        "capacity": _by_domain(device.capacity, domains),
        "allowMultipleAllocations": False,
    }


def _by_domain(values: Mapping[str, Any], domains: frozenset[str]) -> dict[str, JSON]:
    found: dict[str, JSON] = {domain: {} for domain in domains}
    for name, value in values.items():
        domain, _, rest = name.rpartition("/")
        found.setdefault(domain, {})[rest] = value
    return found
