"""The workloads of a stand-in daemon: what is checked, enforced, stored and released, with the texts of RMD v0.3.

`resctrl` is what a kernel would hold: a group of cores, ways and bandwidth for each class of service. The database and
it may differ, as with the daemon.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field

from app.devtools.rmd.checks import Check, Failure, check_database, check_request, cores_in
from app.devtools.rmd.faults import Faults
from app.devtools.rmd.machine import Machine, Pool, pool_of
from app.wire import JSON

SUCCESSFUL = "Successful"


@dataclass(slots=True)
class Group:
    """A class of service in use. `ways` are by cache."""

    cores: frozenset[int]
    pool: Pool | None
    ways: dict[str, frozenset[int]] = field(default_factory=dict)
    bandwidth: int | None = None


class Workloads:
    """One daemon's. `records` are the database, documents by id."""

    def __init__(self, machine: Machine, faults: Faults) -> None:
        self.machine, self.faults = machine, faults
        self.records: dict[str, JSON] = {}
        self.resctrl: dict[str, Group] = {}
        self._number = 0
        self._boot()

    def _boot(self) -> None:
        self.resctrl.clear()
        self._free = [f"COS{number}" for number in range(2, 2 + self.machine.classes)]
        self._shared = ""
        self._bandwidth = self.machine.most_bandwidth

    def check(self, record: JSON) -> None:
        """Raises Failure. Sets the bandwidth that the next enforcement takes."""
        found = check_request(record, self.machine, self.faults)
        if found.bandwidth is not None:
            self._bandwidth = found.bandwidth
        check_database(record, self.records.values())

    def create(self, record: JSON) -> JSON:
        """Enforce and store what has been checked. Raises Failure, and then nothing is stored."""
        self._enforce(record)
        if not record.get("id"):
            self._number += 1
            record["id"] = str(self._number)
        self.records[record["id"]] = record
        return record

    def release(self, record: JSON) -> None:
        """Give back the class of service of a record."""
        name = record["cos_name"]
        group = self.resctrl.get(name)
        if not name or group is None:
            return
        group.cores -= cores_in(record["core_ids"])
        if name == self._shared and group.cores:
            return
        del self.resctrl[name]
        self._free.append(name)
        if name == self._shared:
            self._shared = ""

    def delete(self, record: JSON) -> None:
        self.release(record)
        del self.records[record["id"]]

    def patch(self, record: JSON, change: JSON) -> JSON:
        """Raises Failure. As RMD v0.3 does it: what is enforced is released before."""
        before = copy.deepcopy(record)
        after = copy.deepcopy(record)
        if self._changed(after, change):
            self.release(before)
            after["core_ids"] = change.get("core_ids") or after["core_ids"]
            after["plugins"] = change.get("plugins") or {}
            try:
                self._enforce(after)
            except Failure:
                if not self.faults.failed_patch_keeps_record:
                    self._enforce(before)
                    self.records[record["id"]] = before
                raise
        elif change.get("core_ids") and change["core_ids"] != record["core_ids"]:
            self._move(after, change)
        self.records[record["id"]] = after
        return after

    def collect(self) -> None:
        """Remove the workloads of tasks: there are no processes here, so all of them have ended."""
        for record in [one for one in self.records.values() if one.get("task_ids") and not one["core_ids"]]:
            if not self.faults.collection_keeps_classes:
                self.release(record)
            del self.records[record["id"]]

    def restart(self, *, keep: bool) -> None:
        """Start anew. With `keep` the database is there, else all is as on the first day."""
        self._boot()
        if not keep:
            self.records, self._number = {}, 0
        for record in self.records.values():
            self._enforce(record)

    def free_ways(self, cache: str) -> dict[Pool, frozenset[int]]:
        """What each pool has left of a cache."""
        found = dict(self.machine.pools)
        for group in self.resctrl.values():
            if group.pool in ("guarantee", "besteffort"):
                found[group.pool] -= group.ways.get(cache, frozenset())
        return found

    def _changed(self, after: JSON, change: JSON) -> bool:
        """Put what a PATCH says into a record; whether that has to be enforced anew."""
        if change.get("policy"):
            if change["policy"] == after.get("policy"):
                return False
            after["policy"] = change["policy"]
            check_request({**after, "task_ids": []}, self.machine, self.faults).apply(after)
            return True
        rdt, told = after["rdt"], change.get("rdt") or {}
        changed = bool(change.get("plugins")) and change["plugins"] != after.get("plugins")
        for part in ("cache", "mba"):
            for name, value in (told.get(part) or {}).items():
                after["policy"] = ""
                if rdt[part].get(name) != value:
                    rdt[part][name] = value
                    changed = True
                    if part == "mba":
                        self._bandwidth = value
        return changed

    def _move(self, after: JSON, change: JSON) -> None:
        moved = {**after, **change, "id": after["id"]}
        if self.faults.patch_of_cores_fails:
            check_request(moved, self.machine, self.faults)
            check_database(moved, self.records.values())
        others = [one for one in self.records.values() if one["id"] != after["id"]]
        check_database({**moved, "id": ""}, others)
        self.resctrl[after["cos_name"]].cores = cores_in(change["core_ids"])
        after["core_ids"] = change["core_ids"]

    def _enforce(self, record: JSON) -> None:
        check = Check.of(record)
        pool = pool_of(*check.cache) if check.cache is not None else None
        if check.cache is not None:
            most, least = check.cache
            if least > most:
                raise Failure(500, "Min cache value cannot be greater than max cache value")
            if pool is None:
                detail = f"max_cache={most}, min_cache={least}, doesn't support"
                raise Failure(500, f"Bad cache ways request. Details: {detail}\n")
        if check.cache is not None or check.bandwidth is not None:
            self._group(record, check, pool)
        record["status"] = SUCCESSFUL

    def _group(self, record: JSON, check: Check, pool: Pool | None) -> None:
        cores = cores_in(record["core_ids"])
        ways = self._ways(pool, check.cache, cores) if pool is not None and check.cache is not None else {}
        if pool == "shared" and self._shared:
            self.resctrl[self._shared].cores |= cores
            record["cos_name"] = self._shared
            return
        if not self._free:
            raise Failure(500, f"error, not enough CLOS on host, {len(self.resctrl)} used")
        name = self._free.pop(0)
        if pool == "shared":
            self._shared = name
        bandwidth = check.bandwidth
        if bandwidth is not None and self.faults.one_bandwidth:
            bandwidth = self._bandwidth
        self.resctrl[name] = Group(cores, pool, ways, bandwidth)
        record["cos_name"] = name

    def _ways(self, pool: Pool, cache: tuple[int, int], cores: frozenset[int]) -> dict[str, frozenset[int]]:
        if pool not in self.machine.pools:
            raise Failure(500, f"Unable to read cache schemata; error doesn't support pool {pool}")
        found: dict[str, frozenset[int]] = {}
        for one in self.machine.caches_of(cores):
            free = self.free_ways(one.id)[pool]
            taken = free if pool == "shared" else _run(free, cache, exact=pool == "guarantee")
            if not taken:
                raise Failure(500, f"Not enough cache left on cache_id {one.id}")
            found[one.id] = taken
        return found


def _run(free: Iterable[int], cache: tuple[int, int], *, exact: bool) -> frozenset[int]:
    """Ways beside each other: `max` of them, or unless `exact` at least `min`; none where there are too few."""
    most, least = cache
    runs: list[list[int]] = []
    for way in sorted(free):
        if runs and runs[-1][-1] == way - 1:
            runs[-1].append(way)
        else:
            runs.append([way])
    longest = max(runs, key=len, default=[])
    enough = most if exact else least
    return frozenset(longest[:most]) if len(longest) >= enough else frozenset()
