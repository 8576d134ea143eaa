"""What is taken of a workload stream: good ids and documents, and no more than a tenant may have. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from app.tenancy.gateway.stored_workloads import State, digest_of
from app.tenancy.messages import MessageError, canonical, workload_spec
from app.tenancy.proto import workload_pb

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""Ids of Kubernetes. Of one form and length, so that no name that ends with one can be read in two ways."""
_SHOWN = 80


class Unusable(Exception):
    """An event that is dropped for this `reason`."""

    def __init__(self, reason: str, problem: str, workload_id: str = "") -> None:
        super().__init__(problem)
        self.reason, self.workload_id = reason, workload_id


def checked_id(workload_id: str) -> str:
    if not _UUID.fullmatch(workload_id):
        raise Unusable("id", f"{workload_id[:_SHOWN]!r} is not an id of Kubernetes: use a UUID in lower case")
    return workload_id


def state_of(workload: workload_pb.Workload, size: int, *, limit: int) -> State:
    """Pure: large ones are read beside the event loop. `size` is the message's in bytes."""
    workload_id = workload.metadata.id
    if size <= 2 * limit:  # a message of more need not be taken apart to know
        try:
            spec = workload_spec(workload)
        except MessageError as error:
            raise Unusable("content", str(error), workload_id) from error
        if (size := len(content := canonical(spec))) <= limit:
            return State(spec, digest_of(content), size)
    raise Unusable("size", f"{size} bytes: a workload has at most {limit}", workload_id)


class Census:
    """Limits a stream to `limit` workloads of `size` bytes together.

    The code that follows the cache updates `stored` and `stored_bytes`. No new workloads are taken beyond `advised`,
    which may change at any time.

    A new stream may have other ids than the stored workloads, which are removed once it has sent all of its own. Until
    then twice the limits may be stored, however many streams end before that point.
    """

    def __init__(self, limit: int, *, size: int, advised: Callable[[], int]) -> None:
        self._limit, self._size, self._advised = limit, size, advised
        self._sent: dict[str, int] = {}
        self._bytes = 0
        self.stored = self.stored_bytes = 0

    def __contains__(self, workload_id: object) -> bool:
        return workload_id in self._sent

    def begin(self, sizes: Iterable[int]) -> None:
        """These are the sizes of what is stored."""
        found = list(sizes)
        self.stored, self.stored_bytes = len(found), sum(found)

    def room(self, workload_id: str, *, known: bool) -> bool:
        """Whether this workload may be taken; `known` are those that are stored."""
        if workload_id in self._sent:
            return True
        if len(self._sent) >= self._limit:
            return False
        return known or (self.stored < 2 * self._limit and len(self._sent) < self._advised())

    def fits(self, workload_id: str, size: int, *, stored: int) -> bool:
        """Whether this workload may have so many bytes; it has `stored` ones now. It may always have fewer."""
        others = self._bytes - self._sent.get(workload_id, 0)
        within = others + size <= self._size and self.stored_bytes - stored + size <= 2 * self._size
        return within or size < stored

    def add(self, workload_id: str, size: int) -> None:
        self.discard(workload_id)
        self._sent[workload_id] = size
        self._bytes += size

    def discard(self, workload_id: str) -> None:
        self._bytes -= self._sent.pop(workload_id, 0)
