"""What a node should have by the RmdWorkloads, and what their statuses say after its daemon was asked. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.kube.store import Key
from app.rmd.controller.states import CREATED, failed, is_current, present, state_of, succeeded, unanswered
from app.rmd.planning import Leaving, Plan, Wanted
from app.rmd.stored import Workload
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Desired:
    """`unknown` want every core of a machine that does not tell its cores."""

    wanted: list[Wanted] = field(default_factory=list)
    leaving: list[Leaving] = field(default_factory=list)
    unknown: list[Workload] = field(default_factory=list)


def desired(
    node: str,
    workloads: Iterable[Workload],
    every: frozenset[int] | None,
    targets_of: Callable[[Workload], Sequence[str]],
) -> Desired:
    """`every` are the cores of the machine, None where they are not known.

    An RmdWorkload with problems keeps what it has.
    """
    found = Desired()
    for one in workloads:
        known, last = str(one.states[node].get("id") or ""), unanswered(one.states[node], one.generation)
        request = one.read.request
        if one.deleting or (not one.read.problems and node not in targets_of(one)):
            found.leaving.append(Leaving(one.key, known, last))
        elif one.read.problems:
            continue
        elif request.all_cores and every is None:
            found.unknown.append(one)
        else:
            cores = (every or frozenset()) - request.reserved if request.all_cores else request.cores
            found.wanted.append(Wanted(one.key, one.created, cores, request.settings, known, request.numbered, last))
    return found


def untold(node: str, unknown: Iterable[Workload], text: str) -> dict[Key, str]:
    """What the daemon said in place of its cores, for those that have nothing of the spec as it is."""
    return {
        one.key: text
        for one in unknown
        if not (succeeded(one.states[node]) and is_current(one.states[node], one.generation))
    }


def states_after(
    node: str, workloads: Iterable[Workload], want: Desired, plan: Plan, faults: Mapping[Key, str]
) -> dict[Key, JSON | None]:
    """The states of the node; None where it has nothing any more. `plan` is what is left to do after all steps."""
    before = {one.key: one.states[node] for one in workloads}
    found: dict[Key, JSON | None] = {one.key: None for one in want.leaving}
    for one, reservation in plan.held:
        response = present(before[one.key]) if before[one.key].get("id") == reservation.id else CREATED
        found[one.key] = state_of(reservation, response)
    # The id alone tells a reservation of the operator: it stays until the daemon has released that.
    there = {owner.key for owner, _ in (*plan.release, *plan.blocked)} | {one.key for one in want.unknown}
    for key, text in faults.items():
        found[key] = failed(text, before[key] if key in there and "id" in before[key] else None)
    return found
