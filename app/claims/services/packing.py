"""Packs endpoints into slices with few changes, as Kubernetes does (k8s.io/endpointslice, reconciler.go). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.claims.services.endpoints import Endpoint
from app.claims.services.model import MOST_ENDPOINTS

Found = Mapping[str, tuple[Endpoint | None, ...]]
"""The endpoints of the slices of one group (family and ports), by name."""


class Packed(NamedTuple):
    """The endpoints of slices that stay, and those that further slices are needed for. A slice in none is empty now."""

    kept: Mapping[str, tuple[Endpoint, ...]]
    further: tuple[tuple[Endpoint, ...], ...]


def pack(found: Found, wanted: Iterable[Endpoint], most: int = MOST_ENDPOINTS) -> Packed:
    """Every endpoint of `wanted` is in one slice, and no slice has more than `most`.

    An endpoint stays where it is. New ones go into slices that change anyway, the fullest first; what is left goes into
    the one other slice that it fills best, else into further slices.
    """
    missing = {one.identity: one for one in wanted}
    kept, changed = _keep(found, missing, most)
    rest = list(missing.values())
    for name in sorted(changed, key=lambda name: (-len(kept[name]), name)):
        room = most - len(kept[name])
        kept[name] += rest[:room]
        rest = rest[room:]
    best = _best(kept, changed, len(rest), most) if rest else None
    if best is not None:
        kept[best] += rest
        rest = []
    return Packed({name: tuple(one) for name, one in kept.items()}, _chunks(rest, most))


def _keep(
    found: Found, missing: dict[tuple[str, str], Endpoint], most: int
) -> tuple[dict[str, list[Endpoint]], set[str]]:
    """What stays of each slice, as it should be now, and which of them differ; `missing` loses what has a place."""
    kept: dict[str, list[Endpoint]] = {}
    changed = set()
    for name, endpoints in sorted(found.items()):
        stays: list[Endpoint] = []
        for one in endpoints:
            now = missing.get(one.identity) if one is not None and len(stays) < most else None
            if now is not None:
                stays.append(missing.pop(now.identity))
        if stays:
            kept[name] = stays
            if tuple(stays) != endpoints:
                changed.add(name)
    return kept, changed


def _best(kept: Mapping[str, Sequence[Endpoint]], changed: set[str], count: int, most: int) -> str | None:
    """The slice that has the least room left with so many more."""
    room = {name: most - len(one) - count for name, one in kept.items() if name not in changed}
    return min((name for name, left in room.items() if left >= 0), key=lambda name: (room[name], name), default=None)


def _chunks(rest: Sequence[Endpoint], most: int) -> tuple[tuple[Endpoint, ...], ...]:
    return tuple(tuple(rest[at : at + most]) for at in range(0, len(rest), most))
