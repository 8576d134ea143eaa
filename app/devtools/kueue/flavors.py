"""Which flavors the Pods of a Workload get from a ClusterQueue, and whether there is room for them. Pure.

All resources of a resource group are of one flavor. The first flavor with room is taken, or else the first that would
have room in an empty queue. There are no cohorts, no topologies, and no partial admission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from app.appwrappers.kueue.model import EXCEEDS_MAX_QUOTA, NO_MATCHING_FLAVOR
from app.devtools.kueue.matching import mismatch
from app.kinds.requests import Amounts
from app.kube.quantity import canonical, parse
from app.wire import JSON

PODS = "pods"
"""The resource of which each Pod needs one, where a queue has it."""
_BINARY = ("memory", "ephemeral-storage", "hugepages-")
_NONE = Decimal(0)

Slot = tuple[str, str]
"""A flavor and a resource."""
Usage = dict[Slot, Decimal]


@dataclass(frozen=True, slots=True)
class PodSet:
    """`requests` is what all its Pods need together, `spec` that of one Pod."""

    name: str
    count: int
    requests: Amounts
    spec: JSON


@dataclass(frozen=True, slots=True)
class Assignment:
    """The flavor of each resource, for each podSet, and what they use. `lacking` says what else holds too much."""

    flavors: tuple[Mapping[str, str], ...]
    usage: Usage
    lacking: str = ""


@dataclass(frozen=True, slots=True)
class Unfit:
    """The queue could not take the Workload were it empty; `reason` is that of a `QuotaReserved` that is False."""

    reason: str
    message: str


def quotas_of(groups: Sequence[JSON]) -> Usage:
    """What the resource groups of a ClusterQueue have."""
    return {
        (flavor["name"], one["name"]): parse(one["nominalQuota"])
        for group in groups
        for flavor in group["flavors"]
        for one in flavor["resources"]
    }


def add(*usages: Usage) -> Usage:
    total: Usage = {}
    for usage in usages:
        for slot, amount in usage.items():
            total[slot] = total.get(slot, _NONE) + amount
    return total


def subtract(usage: Usage, freed: Usage) -> Usage:
    return add(usage, {slot: -amount for slot, amount in freed.items()})


def beyond(quotas: Usage, used: Usage, wanted: Usage) -> list[Slot]:
    """Where there is no room for `wanted` beside what is used."""
    return [slot for slot, amount in wanted.items() if used.get(slot, _NONE) + amount > quotas.get(slot, _NONE)]


def assign(
    pod_sets: Sequence[PodSet], groups: Sequence[JSON], flavors: Mapping[str, JSON], used: Usage
) -> Assignment | Unfit:
    """The flavors for these podSets; `flavors` are the ResourceFlavors by name, `used` is what the queue has given."""
    quotas = quotas_of(groups)
    covered = {resource for group in groups for resource in group["coveredResources"]}
    chosen: list[dict[str, str]] = []
    usage: Usage = {}
    lacking = []
    for pod_set in pod_sets:
        requests = {**pod_set.requests, **({PODS: Decimal(pod_set.count)} if PODS in covered else {})}
        prefix = f"couldn't assign flavors to pod set {pod_set.name}: "
        for resource in sorted(name for name, amount in requests.items() if amount and name not in covered):
            return Unfit(NO_MATCHING_FLAVOR, f"{prefix}resource {resource} unavailable in ClusterQueue")
        names: dict[str, str] = {}
        for group in groups:
            wanted = {name: requests[name] for name in group["coveredResources"] if name in requests}
            if not wanted:
                continue
            offered = [one["name"] for one in group["flavors"]]
            found = _flavor(wanted, pod_set.spec, offered, flavors, quotas, used, usage)
            if isinstance(found, Unfit):
                return Unfit(found.reason, prefix + found.message)
            flavor, lack = found
            lacking += [prefix + lack] if lack else []
            names |= dict.fromkeys(wanted, flavor)
            usage = add(usage, {(flavor, name): amount for name, amount in wanted.items()})
        chosen.append(names)
    return Assignment(tuple(chosen), usage, "; ".join(lacking))


def _flavor(
    wanted: Amounts,
    spec: JSON,
    names: Sequence[str],
    flavors: Mapping[str, JSON],
    quotas: Usage,
    used: Usage,
    taken: Usage,
) -> tuple[str, str] | Unfit:
    """The flavor, and what it lacks now."""
    later: tuple[str, str] | None = None
    faults: list[str] = []
    too_much: list[str] = []
    for name in names:
        fault = mismatch(name, spec, flavors[name].get("spec") or {})
        if fault:
            faults.append(fault)
            continue
        needed = {(name, r): amount + taken.get((name, r), _NONE) for r, amount in wanted.items()}
        if never := beyond(quotas, {}, needed):
            too_much += [f"insufficient quota for {_figures(slot, needed, quotas)}" for slot in never]
        elif now := beyond(quotas, used, needed):
            lacks = (f"insufficient unused quota for {_figures(slot, needed, quotas)}" for slot in now)
            later = later or (name, ", ".join(lacks))
        else:
            return name, ""
    if later is not None:
        return later
    return Unfit(EXCEEDS_MAX_QUOTA if too_much else NO_MATCHING_FLAVOR, ", ".join(too_much + faults))


def _figures(slot: Slot, needed: Usage, quotas: Usage) -> str:
    flavor, resource = slot
    of = f"{quantity(resource, needed[slot])} requested, {quantity(resource, quotas.get(slot, _NONE))} in all"
    return f"{resource} in flavor {flavor}: {of}"


def quantity(resource: str, amount: Decimal) -> str:
    """As Kueue writes it: bytes with a binary suffix."""
    if resource.startswith(_BINARY) and amount and amount % 1024 == 0:
        return canonical(f"{amount / 1024:f}Ki")
    return canonical(f"{amount:f}")
