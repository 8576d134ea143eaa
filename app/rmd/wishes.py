"""What the containers of a Pod ask for, where RDT classes of the container runtime serve them. Pure.

The annotations are those that the node agent reads (`app.rmd.pods`). Neither the quality of service nor whole CPUs
matter, and a container may ask by annotations alone: no node has to announce cache ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.kube.quantity import parse_integer
from app.rmd.classes import Wish
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.pods import SETTINGS, settings_of, ways_of
from app.rmd.requests import MOST_MBPS
from app.text import quoted
from app.wire import JSON

_MOST = {"percentage": 100, "mbps": MOST_MBPS}


@dataclass(frozen=True, slots=True)
class Wisher:
    """A container. `place` is the list that it is in, and its index; `problems` and `warnings` name the field."""

    container: str
    place: tuple[str, int]
    wish: Wish
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def field(self) -> str:
        return f"spec.{self.place[0]}[{self.place[1]}]"

    @property
    def asks(self) -> bool:
        return bool(self.problems) or self.wish != Wish()


def read_wishes(pod: JSON) -> tuple[Wisher, ...]:
    """All containers in the order of the Pod, init containers first."""
    spec: JSON = pod.get("spec") or {}
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return tuple(
        _wisher(container, (kind, index), annotations)
        for kind in ("initContainers", "containers")
        for index, container in enumerate(spec.get(kind) or ())
    )


def _wisher(container: JSON, place: tuple[str, int], annotations: Mapping[str, str]) -> Wisher:
    name, problems, ways = container["name"], list[str](), 0
    try:
        ways = parse_integer(ways_of(container) or 0)
    except ValueError as error:
        problems.append(f"spec.{place[0]}[{place[1]}].resources.limits[{L3_CACHE_WAYS}]: {error}")
    said = settings_of(name, ways, annotations, problems)
    least, mba = said["rdt"]["cache"]["min"], {unit: one for unit, one in said["rdt"].get("mba", {}).items() if one}
    problems += _out_of_range(name, ways, least, mba)
    policy = said.get("policy", "")
    warnings = list(_without_effect(name, policy, annotations))
    if policy:
        return Wisher(name, place, Wish(policy), tuple(problems), tuple(warnings))
    wish = Wish(ways=ways or None, least=least if 0 < least < ways else None, **mba)
    return Wisher(name, place, wish, tuple(problems), tuple(warnings))


def _out_of_range(name: str, ways: int, least: int, mba: Mapping[str, int]) -> Iterator[str]:
    if 0 < ways < least:
        yield f"metadata.annotations[{name}_cache_min]: want at most the ways of the container, {ways}, got {least}"
    for unit, value in mba.items():
        if value > _MOST[unit]:
            yield f"metadata.annotations[{name}_mba_{unit}]: want 1 to {_MOST[unit]}, got {value}"
    if len(mba) > 1:
        yield f"metadata.annotations[{name}_mba_mbps]: excludes {name}_mba_percentage: want the one of the machines"


def _without_effect(name: str, policy: str, annotations: Mapping[str, str]) -> Iterator[str]:
    for key in (f"{name}_{one}" for one in SETTINGS):
        if key not in annotations:
            continue
        if "_pstate_" in key:
            yield f"metadata.annotations[{key}]: has no effect: an RDT class has no P-states"
        elif policy and not key.endswith("_policy"):
            yield f"metadata.annotations[{key}]: has no effect: policy {quoted(policy)} wins"
