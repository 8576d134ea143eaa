"""Which workloads one stream has told of, and whether one more may be: both are bounded. It does no I/O."""

from __future__ import annotations


class Census:
    """`stored` is kept by whoever follows the cache: the number of the tenant's Workloads.

    A stream that begins anew may have other ids than what is stored, all of which goes once it has sent its own.
    So as many again as the limit may be stored, by any number of streams that never come to that point.
    """

    def __init__(self, limit: int, *, stored: int) -> None:
        self._limit = limit
        self._sent: set[str] = set()
        self.stored = stored

    def __contains__(self, workload_id: object) -> bool:
        return workload_id in self._sent

    def room(self, workload_id: str, *, known: bool) -> bool:
        """Whether this workload may be taken; `known` are those that are stored."""
        if workload_id in self._sent:
            return True
        return len(self._sent) < self._limit and (known or self.stored < 2 * self._limit)

    def add(self, workload_id: str) -> None:
        self._sent.add(workload_id)

    def discard(self, workload_id: str) -> None:
        self._sent.discard(workload_id)
