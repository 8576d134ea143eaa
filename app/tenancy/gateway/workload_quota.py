"""Limits the number and the bytes of the workloads that one stream may send. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Census:
    """Limits a stream to `limit` workloads of `size` bytes together.

    The code that follows the cache updates `stored` and `stored_bytes`. No new workloads are taken beyond `advised`,
    which may change at any time.

    A new stream may have other ids than the stored workloads, which are removed once it has sent all of its own. Until
    then twice the limits may be stored, however many streams end before that point.
    """

    def __init__(self, limit: int, *, size: int, advised: Callable[[], int]) -> None:
        self._limit = limit
        self._advised = advised
        self._size = size
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
