"""What a PATCH makes of a workload: the record it asks for, and whether that has to be enforced again. Pure.

The record takes over cores, tasks and plugins only where it is enforced again. Plugins are then replaced as a whole,
also by none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from app.devtools.rmd.bits import numbers
from app.devtools.rmd.failures import Failure, detailed
from app.devtools.rmd.machine import MAX_MBPS, MAX_PERCENTAGE, Machine
from app.devtools.rmd.model import Workload
from app.devtools.rmd.plugins import fault_of
from app.devtools.rmd.validation import check_unit, with_policy
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Change:
    """The new record, and whether it is enforced again."""

    workload: Workload
    again: bool


def changed(one: Workload, patch: Workload, machine: Machine, remember: Callable[[int], None]) -> Change:
    """What the patch makes of the workload. Raises Failure.

    `remember` is called with an MBA value that differs from the workload's. A policy wins over all else; any value of
    cache or MBA removes it from the record.
    """
    if patch.policy:
        if patch.policy == one.policy:
            return Change(one, again=False)
        one = replace(one, policy=patch.policy)
        with suppress(Failure):  # as the daemon ignores it here; the enforcement fails then
            one = with_policy(one, machine)
        return Change(one, again=True)
    before = one
    if one.policy:
        with suppress(Failure):
            one = with_policy(one, machine)
    wanted = _with_cache(one, patch)
    check_unit(patch, machine)
    wanted = _with_mba(wanted, patch, remember)
    again = any(getattr(wanted, name) != getattr(one, name) for name in ("max", "min", "percentage", "mbps"))
    for name, parameters in patch.plugins.items():
        if name != "cache" and not _same(before.plugins.get(name), parameters):
            _check_plugin(name, parameters, one, machine)
            again = True
    return Change(wanted, again)


def taken_over(one: Workload, patch: Workload) -> Workload:
    """The record that is enforced again: with cores, tasks and plugins of the patch."""
    return replace(
        one,
        core_ids=patch.core_ids or one.core_ids,
        task_ids=patch.task_ids or one.task_ids,
        plugins=patch.plugins,
    )


def moves(one: Workload, patch: Workload) -> bool:
    """Whether the patch has other core or task ids than the workload. To leave them out is another value, too."""
    return (patch.core_ids, patch.task_ids) != (one.core_ids, one.task_ids)


def _with_cache(one: Workload, patch: Workload) -> Workload:
    if patch.max is not None:
        one = replace(one, policy="", max=patch.max)
    if patch.min is not None:
        one = replace(one, policy="", min=patch.min)
    return one


def _with_mba(one: Workload, patch: Workload, remember: Callable[[int], None]) -> Workload:
    if patch.percentage is not None:
        if not 0 < patch.percentage <= MAX_PERCENTAGE:
            raise Failure("MBA values range only from 1 to 100")
        if patch.percentage != one.percentage:
            remember(patch.percentage)
        one = replace(one, policy="", percentage=patch.percentage)
    if patch.mbps is not None:
        if not 0 < patch.mbps <= MAX_MBPS:
            raise Failure("MBA values range only from 1 to 4294967290")
        if patch.mbps != one.mbps:
            remember(patch.mbps)
        one = replace(one, policy="", mbps=patch.mbps)
    return one


def _same(stored: JSON | None, asked: JSON) -> bool:
    """Whether the daemon takes these parameters for the same. Numbers always differ: it compares two types of them."""
    return stored == asked and not any(
        isinstance(value, int | float) and not isinstance(value, bool) for value in asked.values()
    )


def _check_plugin(name: str, parameters: JSON, one: Workload, machine: Machine) -> None:
    for ids, kind in ((one.core_ids, "core"), (one.task_ids, "task")):
        try:
            numbers(ids)
        except ValueError:
            raise Failure(f"Invalid params ({kind} ids) received") from None
    if name not in machine.plugins:
        raise Failure("Trying to use module that is not loaded")
    if fault := fault_of(name, parameters):
        raise detailed("Invalid params received", fault)
