"""Which resource a device serves, as its ResourceSlice says. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from app.claims.stored import Slice


def resources_of(slices: Iterable[Slice]) -> dict[str, str]:
    """The attribute resourceName by device, out of the slices of one pool; devices without it are left out.

    Only the newest generation counts of which all slices are there (API of ResourceSlice, `pool.resourceSliceCount`).
    """
    by_generation: dict[int, list[Slice]] = {}
    for one in slices:
        by_generation.setdefault(one.generation, []).append(one)
    complete = (number for number, found in by_generation.items() if len(found) >= max(one.slices for one in found))
    newest = by_generation.get(max(complete, default=-1), [])
    return {name: said.resource_name for one in newest for name, said in one.devices.items() if said.resource_name}
