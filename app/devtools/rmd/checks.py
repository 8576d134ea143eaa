"""What RMD v0.3 checks of a workload before it enforces it, in its order and with its texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.devtools.rmd.faults import Faults
from app.devtools.rmd.machine import Machine
from app.rmd.cores import parse_cores, ranges_of
from app.wire import JSON

_LISTED = 32
"""Cores that the text about an overlap names."""


class Failure(Exception):
    """An answer that is not a success; `text` is its body."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


@dataclass(frozen=True, slots=True)
class Check:
    """What a request says of cache (max, min) and bandwidth. Both are those of the policy where one is named."""

    cache: tuple[int, int] | None
    bandwidth: int | None

    @classmethod
    def of(cls, record: JSON) -> Check:
        cache, mba = record["rdt"]["cache"], record["rdt"]["mba"]
        bandwidth = None if record.get("policy") else mba.get("percentage", mba.get("mbps"))
        ways = (cache["max"], cache["min"]) if "max" in cache and "min" in cache else None
        return cls(ways, bandwidth)

    def apply(self, record: JSON) -> None:
        if self.cache is not None:
            record["rdt"]["cache"] = {"max": self.cache[0], "min": self.cache[1]}


def cores_in(items: Iterable[str]) -> frozenset[int]:
    """Raises Failure, as the bitmaps of the daemon fail."""
    try:
        return frozenset().union(*(parse_cores(item) for item in items))
    except ValueError as error:
        raise Failure(400, f"Failed to validate workload. Reason: wrong cpu list: {error}") from error


def check_request(record: JSON, machine: Machine, faults: Faults) -> Check:
    """Raises Failure. With a policy its cache goes into the record."""
    if not record.get("task_ids") and not record["core_ids"]:
        raise _invalid("No task or core id specified")
    for task in record.get("task_ids") or ():
        raise _invalid(f"The task: {task} does not exist")
    if record.get("policy"):
        if record["policy"] not in machine.policies:
            raise _invalid(f"Could not find the Policy. Policy {record['policy']} is not found in policy file")
        found = Check(machine.policies[record["policy"]], None)
        found.apply(record)
        return found
    cache, mba = record["rdt"]["cache"], record["rdt"]["mba"]
    if ("max" in cache) != ("min" in cache):
        raise _invalid("Need to provide both cache.* or none of them")
    if mba:
        _check_bandwidth(cache, mba, machine)
    if not machine.cat and cache:
        raise _invalid("This machine supports only MBA and not cache")
    for name in record.get("plugins") or {}:
        _check_plugin(name, record, machine)
    counted = "percentage" in mba or ("mbps" in mba and not faults.mbps_alone_refused)
    if not cache and not counted and not record.get("plugins"):
        raise _invalid("No RDT/Plugins params in workload")
    return Check.of(record)


def _check_bandwidth(cache: JSON, mba: JSON, machine: Machine) -> None:
    if machine.mba != "none":
        wrong = "percentage" if machine.mba == "mbps" else "mbps"
        if wrong in mba:
            raise _invalid(f"Please provide MBA in {machine.mba.capitalize()}")
    value = next(iter(mba.values()))
    guaranteed = not cache or cache["max"] == cache["min"] > 0
    if not guaranteed and value != machine.most_bandwidth:
        raise _invalid("MBA only supported for Guaranteed Request and not for BestEffort and Shared")
    if not 0 < value <= machine.most_bandwidth:
        raise _invalid(f"MBA values in should range from 1 to {machine.most_bandwidth}")
    if machine.cat and machine.mba != "none" and not cache:
        raise _invalid("Need to provide both cache and mba for better performance")
    if machine.cat and machine.mba == "none":
        raise _invalid("This machine supports only cache and not MBA")


def _check_plugin(name: str, record: JSON, machine: Machine) -> None:
    if name not in machine.plugins:
        raise _invalid("Trying to use module that is not loaded")
    params = record["plugins"][name]
    # The daemon looks for one dash in each item, and for no comma.
    if any("," in item for item in record["core_ids"]):
        raise _invalid("Invalid params (core ids) received")
    if not isinstance(params, dict) or params.get("monitoring", "on") not in ("on", "off"):
        raise _invalid("Invalid params received. Details: monitoring should be on or off\n")


def check_database(record: JSON, records: Iterable[JSON]) -> None:
    """Raises Failure where an id, a uuid or a core is taken."""
    cores = cores_in(record["core_ids"])
    for other in records:
        if record.get("id") and record["id"] == other["id"]:
            raise _in_database(f"Workload id {record['id']} has been used by other workload")
        if record.get("uuid") and record["uuid"] == other.get("uuid"):
            raise _in_database(f"UUID {record['uuid']} already exists in workload {other['id']}")
        if both := cores & cores_in(other["core_ids"]):
            listed = " ".join(ranges_of(sorted(both)[:_LISTED]))
            raise _in_database(f"CPU list [{listed}] has been assigned")


def _in_database(text: str) -> Failure:
    return _invalid(f"Workload validation in database failed. Details: {text}\n")


def _invalid(text: str) -> Failure:
    return Failure(400, f"Failed to validate workload. Reason: {text}")
