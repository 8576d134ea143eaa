"""JSON Patch (RFC 6902) operations against an object as it came in, planned explicitly and in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec


class Operation(msgspec.Struct, frozen=True):
    """One operation as it travels. An "add" replaces a member; a "remove" has no value."""

    op: Literal["add", "remove"]
    path: str
    value: object = msgspec.UNSET


class Steps(msgspec.Struct, frozen=True):
    """Operations planned ahead. Any number of patches share them, so their values must not be changed.

    `ensures` are the paths of the containers among them, which a patch that has them already leaves out.
    """

    operations: Sequence[Operation]
    ensures: frozenset[str]


class Patch:
    """Operations in the order in which they were planned, each with the reason for it.

    Several injectors share one, so a parent that two of them need (`/spec/volumes`) is created once. It begins with the
    `planned` steps.
    """

    __slots__ = ("_ensured", "operations", "reasons")

    def __init__(self, planned: Steps | None = None, reasons: Sequence[str] = ()) -> None:
        self.operations: list[Operation] = list(planned.operations) if planned else []
        self.reasons: list[str] = list(reasons)
        self._ensured: set[str] = set(planned.ensures) if planned else set()

    def add(self, path: str, value: object, *, reason: str) -> None:
        """Set the member at `path`, or append where it ends in `/-`."""
        self.operations.append(Operation("add", path, value))
        self.reasons.append(reason)

    def remove(self, path: str, *, reason: str) -> None:
        """Take the member at `path` away; it has to be there."""
        self.operations.append(Operation("remove", path))
        self.reasons.append(reason)

    def ensure(self, path: str, empty: object, *, present: bool, reason: str) -> None:
        """Create the container at `path` as `empty` ({} or []) unless it is `present` or was ensured before."""
        if present or path in self._ensured:
            return
        self._ensured.add(path)
        self.add(path, empty, reason=reason)

    def extend(self, steps: Steps, *, reason: str) -> None:
        operations: Sequence[Operation] = steps.operations
        if steps.ensures:
            ensured = steps.ensures & self._ensured
            if ensured:
                operations = [operation for operation in operations if operation.path not in ensured]
            self._ensured |= steps.ensures
        self.operations += operations
        self.reasons += [reason] * len(operations)

    def nest(self, inner: Patch, where: str) -> None:
        """Take over a patch of the value at `where`, which is not patched otherwise."""
        self.operations += [
            Operation(operation.op, where + operation.path, operation.value) for operation in inner.operations
        ]
        self.reasons += inner.reasons

    def steps(self) -> Steps:
        """What was planned so far, for other patches; the reasons are those patches' own."""
        return Steps(tuple(self.operations), frozenset(self._ensured))
