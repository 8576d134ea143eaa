"""What the daemon checks of a new workload before it enforces it, in its order and with its texts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from app.devtools.rmd.bits import WORD, members, numbers, parsed
from app.devtools.rmd.failures import INTERNAL, Failure, detailed
from app.devtools.rmd.faults import Faults
from app.devtools.rmd.machine import Machine
from app.devtools.rmd.model import Workload
from app.devtools.rmd.plugins import fault_of
from app.wire import JSON


def validated(
    one: Workload, machine: Machine, faults: Faults, *, tasks: Collection[str], remember: Callable[[int], None]
) -> Workload:
    """The workload with what its policy sets. Raises Failure.

    `tasks` are the tasks that run. `remember` is called with the MBA value when the daemon stores it, which is
    before the value is checked.
    """
    if not one.task_ids and not one.core_ids:
        raise Failure("No task or core id specified")
    for task in one.task_ids:
        if task not in tasks:
            raise Failure(f"The task: {task} does not exist")
    if one.policy:
        return with_policy(one, machine)
    if (one.max is None) != (one.min is None):
        raise Failure("Need to provide both cache.* or none of them")
    check_unit(one, machine)
    if machine.mba != "none" and one.mba is not None:
        remember(one.mba)
    _check_mba(one, machine)
    _check_capabilities(one, machine)
    for name, parameters in one.plugins.items():
        check_plugin(name, parameters, one, machine)
    alone = one.percentage is not None or (one.mbps is not None and not faults.mbps_alone_refused)
    if one.max is None and not alone and not one.plugins:
        raise Failure("No RDT/Plugins params in workload")
    return one


def with_policy(one: Workload, machine: Machine) -> Workload:
    """The workload with cache and plugins of its policy. Its MBA stays. Raises Failure for an unknown one."""
    modules = dict(policy_of(one.policy, machine, "Could not find the Policy. "))
    cache = modules.pop("cache", {})
    modules.pop("mba", None)
    if "max" in cache and "min" in cache:
        one = replace(one, max=cache["max"], min=cache["min"])
    if (one.max is None) != (one.min is None):
        raise Failure("Invalid policy - exactly one *Cache param defined")
    return replace(one, plugins={**one.plugins, **modules})


def policy_of(name: str, machine: Machine, before: str = "") -> JSON:
    """The modules of a policy. Raises Failure, whose text begins with `before`."""
    try:
        policies = machine.policies[machine.architecture]
    except KeyError:
        raise Failure(before + platform_fault(machine)) from None
    if name not in policies:
        raise Failure(f"{before}Can not find specified policy {name}")
    return dict(policies[name])


def platform_fault(machine: Machine) -> str:
    """Why a machine whose micro-architecture has no policies has none."""
    if not machine.architecture:
        return "Unknown platform, please update the cpu_map.toml conf file"
    return f"Error while get platform policy: {machine.architecture}"


def check_unit(one: Workload, machine: Machine) -> None:
    """Raises Failure for MBA in the unit that is not the daemon's."""
    if machine.mba == "mbps" and one.percentage is not None:
        raise Failure("Please provide MBA in Mbps")
    if machine.mba == "percentage" and one.mbps is not None:
        raise Failure("Please provide MBA in Percentage")


def _check_mba(one: Workload, machine: Machine) -> None:
    if one.mba is None:
        return
    # Without MBA the daemon has stored no value, and compares 0 with its maximum 0.
    value = one.mba if machine.mba != "none" else 0
    guaranteed = one.max == one.min and one.max != 0
    if one.max is not None and not guaranteed and value != machine.max_mba:
        raise Failure("MBA only supported for Guaranteed Request and not for BestEffort and Shared")
    if not 0 < value <= machine.max_mba:
        raise Failure(f"MBA values in should range from 1 to {machine.max_mba}")


def _check_capabilities(one: Workload, machine: Machine) -> None:
    # With cache allocation alone, the range of MBA values is empty: `_check_mba` has refused all of them.
    if machine.cat and machine.mba != "none":
        if one.max is None and one.mba is not None:
            raise Failure("Need to provide both cache and mba for better performance")
    elif not machine.cat and one.max is not None:
        raise Failure("This machine supports only MBA and not cache")


def check_plugin(name: str, parameters: JSON, one: Workload, machine: Machine) -> None:
    """Raises Failure for a plugin that is not loaded, for ids that plugins cannot read, and for bad parameters."""
    if name not in machine.plugins:
        raise Failure("Trying to use module that is not loaded")
    for ids, kind in ((one.core_ids, "core"), (one.task_ids, "task")):
        try:
            numbers(ids)
        except ValueError:
            raise Failure(f"Invalid params ({kind} ids) received") from None
    if fault := fault_of(name, parameters):
        raise detailed("Invalid params received", fault)


def check_stored(one: Workload, stored: Iterable[Workload]) -> None:
    """Raises Failure where the workload has an id, UUID, task or core of a stored one."""
    try:
        _compare(one, tuple(stored))
    except ValueError as error:
        raise detailed("Workload validation in database failed", error, INTERNAL) from None


def _compare(one: Workload, stored: tuple[Workload, ...]) -> None:
    if one.id and any(other.id == one.id for other in stored):
        raise ValueError(f"Workload with id {one.id} already exists")
    for other in stored:
        if one.uuid and other.uuid == one.uuid:
            raise ValueError(f"UUID {one.uuid} already exists in workload {other.id}")
    for task in one.task_ids:
        for other in stored:
            if task in other.task_ids:
                raise ValueError(f"TaskID {task} already exists in workload {other.id}")
    if not one.core_ids:
        return
    taken, asked = 0, parsed(one.core_ids)
    for other in stored:
        taken |= parsed(other.core_ids) if other.core_ids else 0
    if both := asked & taken:
        listed = " ".join(str(bit) for bit in members(both) if bit < WORD)
        raise ValueError(f"CPU list [{listed}] has been assigned")
