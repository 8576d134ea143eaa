"""The daemon without HTTP: its database, its classes of service, and what requests make of them. No clock, no I/O.

A caller that answers requests makes a POST of `validate` and `enforce`; `post` is both at once.
"""

from __future__ import annotations

from dataclasses import replace

from app.devtools.rmd.bits import numbers
from app.devtools.rmd.classes import Classes
from app.devtools.rmd.enforcing import enforce, release
from app.devtools.rmd.failures import INTERNAL, Failure, detailed
from app.devtools.rmd.faults import Faults
from app.devtools.rmd.machine import Machine
from app.devtools.rmd.model import FAILED, REST, Workload
from app.devtools.rmd.patching import changed, moves, taken_over
from app.devtools.rmd.restarting import restarted
from app.devtools.rmd.validation import check_stored, validated

NOT_FOUND = "404: Could not found workload"
FOREIGN = "200: You only have permission to {} REST origin workloads"


class Daemon:
    """One daemon. `tasks` are the ids of the processes that run; tests may change it, and `faults`, at any time."""

    def __init__(self, machine: Machine | None = None, faults: Faults | None = None) -> None:
        self.machine = machine or Machine()
        self.faults = faults or Faults()
        self.tasks: set[str] = set()
        self.classes = Classes(self.machine)
        self._records: dict[str, Workload] = {}
        self._sequence = 0
        self._mba = 0

    def workloads(self) -> list[Workload]:
        """All records, in the order of their ids as texts."""
        return [self._records[key] for key in sorted(self._records)]

    def get(self, key: str) -> Workload:
        """The record with this id. Raises Failure with status 404."""
        if key not in self._records:
            raise Failure(NOT_FOUND, 404)
        return self._records[key]

    def add(self, one: Workload) -> Workload:
        """Enforce and store a workload without validation, such as one of another origin than REST. Raises Failure."""
        if one.mba is not None:
            self._remember(one.mba)
        return self.enforce(one)

    def post(self, one: Workload) -> Workload:
        """Validate, enforce and store a new workload. Raises Failure and Crash."""
        return self.enforce(self.validate(one))

    def validate(self, one: Workload) -> Workload:
        """The workload with what its policy sets. Raises Failure with status 400, and Crash; nothing is stored."""
        try:
            one = validated(one, self.machine, self.faults, tasks=self.tasks, remember=self._remember)
            check_stored(one, self.workloads())
        except Failure as error:
            raise Failure(f"Failed to validate workload. Reason: {error.text}") from None
        return one

    def enforce(self, one: Workload) -> Workload:
        """Enforce a validated workload, and store it. Nothing is stored when that fails. Raises Failure and Crash."""
        try:
            one = enforce(one, self.machine, self.faults, self.classes, self._mba_of(one))
        except Failure as error:
            raise self._answered(error) from None
        if not one.id:
            # A client may have sent this id before: its record is overwritten, as in the daemon.
            self._sequence += 1
            one = replace(one, id=str(self._sequence))
        self._records[one.id] = one
        return one

    def patch(self, key: str, patch: Workload) -> Workload:
        """Change a workload: what changes is released first and enforced again. Raises Failure and Crash."""
        one = self.get(key)
        self._check_origin(one, "modify")
        self.collect()
        try:
            one = self._patched(one, replace(patch, id=key))
        except Failure as error:
            raise self._answered(error) from None
        self._records[key] = one
        return one

    def delete(self, key: str) -> None:
        """Release a workload, and remove its record. Raises Failure."""
        one = self.get(key)
        self._check_origin(one, "delete")
        self._release(one)
        del self._records[key]

    def collect(self) -> None:
        """Remove the workloads none of whose tasks runs any more. The daemon does it every 30 s, and before a PATCH."""
        for one in self.workloads():
            if one.task_ids and not self.tasks.intersection(one.task_ids):
                del self._records[one.id]
                if not self.faults.collection_leaks_class:
                    release(one, self.machine, self.classes)

    def restart(self, *, keep: bool | None = None, enforced: bool = True, machine: Machine | None = None) -> None:
        """End the daemon and start it, perhaps with another configuration.

        `keep` says whether database and classes of service survive; None: as the fault `restart_forgets` says. Without
        `enforced` the records survive, and what their classes give does not, as after a new mount of resctrl. What is
        kept has to fit the configuration, else RefusedStart is raised, and the daemon is as before. Two workloads in
        the shared pool do not fit: they have the same class.
        """
        machine, keep = machine or self.machine, not self.faults.restart_forgets if keep is None else keep
        found = self.classes if keep and enforced else Classes(machine)
        classes = restarted(found, self.workloads() if keep else [], machine)
        self.machine, self.classes, self._mba = machine, classes, 0
        if not keep:
            self._records, self._sequence = {}, 0

    def _patched(self, one: Workload, patch: Workload) -> Workload:
        change = changed(one, patch, self.machine, self._remember)
        moving = moves(one, patch)
        if change.again or (moving and not self.faults.core_change_refused):
            return self._enforced_anew(one, taken_over(change.workload, patch))
        if moving:
            try:
                validated(patch, self.machine, self.faults, tasks=self.tasks, remember=self._remember)
                check_stored(patch, self.workloads())
            except Failure as error:
                raise detailed("Failed to validate workload", error.text) from None
        return change.workload

    def _enforced_anew(self, one: Workload, wanted: Workload) -> Workload:
        try:
            self._release(one)
        except Failure:
            raise detailed("Failed to release workload", "", INTERNAL) from None
        try:
            return enforce(wanted, self.machine, self.faults, self.classes, self._mba_of(wanted))
        except Failure:
            if not self.faults.failed_patch_keeps_class:
                self._records[one.id] = replace(one, status=FAILED, cos_name="")
            raise

    def _release(self, one: Workload) -> None:
        if one.plugins:
            for ids, kind in ((one.core_ids, "core"), (one.task_ids, "task")):
                try:
                    numbers(ids)
                except ValueError:
                    raise Failure(f"Invalid params ({kind} ids) received", INTERNAL) from None
        release(one, self.machine, self.classes)

    def _check_origin(self, one: Workload, verb: str) -> None:
        if one.origin != REST:
            succeeds = self.faults.foreign_origin_succeeds
            raise Failure(FOREIGN.format(verb), 200 if succeeds else 403)

    def _mba_of(self, one: Workload) -> int:
        return self._mba if self.faults.one_mba_value or one.mba is None else one.mba

    def _remember(self, value: int) -> None:
        self._mba = value

    def _answered(self, error: Failure) -> Failure:
        return Failure(error.text, INTERNAL) if self.faults.every_failure_is_internal else error
