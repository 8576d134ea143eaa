"""Bounds the bytes that requests hold before they are answered: one budget for each port, shared by its clients.

Without it the number of connections times the size of the largest request would be the bound. A small request always
finds room. For a larger one, those that are not complete give way: first of clients that proved nothing, then of the
client that holds most, the oldest first. What is complete is being answered, and is never given up.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable
from typing import Literal, NamedTuple

SMALL = 64 * 1024
"""Bytes; a request of no more always finds room."""

PORT_BYTES = 16 * 1024 * 1024
"""The budget of a port that is given none."""

_SLOW_SECONDS = 1.0
"""Age of an incomplete request that gives way to a later one of the same client."""

_TRIM_BYTES = 32 * 1024 * 1024
"""Freed since the heap was trimmed. Trimming takes about a millisecond."""

Refusal = Literal["full", "slow"]
REFUSALS: tuple[Refusal, ...] = ("full", "slow")
"""There was no room; it was not complete, and gave way."""


class Client(NamedTuple):
    """Who holds bytes; `proven` by a certificate that a CA of ours has signed."""

    address: str
    proven: bool = False


class Holding:
    """The bytes that one request holds. `give_way` is called where they are taken away before it is complete."""

    __slots__ = ("_budget", "_give_way", "began", "client", "lost", "size")

    def __init__(self, budget: Budget, client: Client, give_way: Callable[[], object]) -> None:
        self._budget, self._give_way = budget, give_way
        self.client = client
        self.began = budget.clock()
        self.size = 0
        self.lost = False

    @property
    def most(self) -> int:
        """How many bytes more it can hold where its client holds nothing else."""
        return max(0, self._budget.limit // 2 - self.size)

    def take(self, size: int) -> bool:
        """Hold so many bytes more. False where there is no room, now or before: then it holds nothing any more."""
        if self.lost or not size:
            return not self.lost  # one that holds nothing stands in no account: nothing would take it out again
        if not self._budget.make_room(self, size):
            self.lose("full")
            return False
        self._budget.add(self, size)
        return True

    def keep(self) -> None:
        """The request is complete, and does not give way any more."""
        self._budget.settle(self)

    def release(self) -> None:
        """Hold nothing. A second call has no effect."""
        self._budget.remove(self)
        self._give_way = _nothing  # breaks the cycle of references that it is part of

    def lose(self, refusal: Refusal) -> None:
        self.lost = True
        self._budget.refused[refusal] += 1
        give_way = self._give_way
        self.release()
        give_way()


class _Account:
    """What one client holds; `open` has the incomplete requests, the oldest first."""

    __slots__ = ("open", "size")

    def __init__(self) -> None:
        self.size = 0
        self.open: dict[Holding, None] = {}


class Budget:
    """`limit` bytes for all requests of a port; half of them for one client, three quarters for those without proof.

    `port` is its name in the metrics; `refused` counts requests by what happened to them.
    """

    def __init__(
        self, limit: int = PORT_BYTES, *, port: str = "health", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit = limit
        self.port = port
        self.clock = clock
        self.held = 0
        self.refused: dict[Refusal, int] = dict.fromkeys(REFUSALS, 0)
        self._strange = 0
        self._freed = 0
        self._accounts: dict[Client, _Account] = {}
        budgets.add(self)

    def take_refused(self) -> dict[Refusal, int]:
        """How many were refused since the last call."""
        refused, self.refused = self.refused, dict.fromkeys(REFUSALS, 0)
        return refused

    def hold(self, client: Client, give_way: Callable[[], object]) -> Holding:
        """A holding of nothing yet."""
        return Holding(self, client, give_way)

    def make_room(self, holding: Holding, size: int) -> bool:
        """Whether there is room for so much more, after others gave way."""
        small = holding.size + size <= SMALL
        if not small and size > self.limit // 2:
            return False
        while (over := self._over(holding.client, size)) is not None:
            victim = self._victim(holding, over, small=small)
            if victim is None:
                return small
            victim.lose("slow")
        return True

    def add(self, holding: Holding, size: int) -> None:
        account = self._accounts.setdefault(holding.client, _Account())
        if not holding.size:
            account.open[holding] = None
        holding.size += size
        account.size += size
        self.held += size
        if not holding.client.proven:
            self._strange += size

    def settle(self, holding: Holding) -> None:
        if (account := self._accounts.get(holding.client)) is not None:
            account.open.pop(holding, None)

    def remove(self, holding: Holding) -> None:
        account = self._accounts.get(holding.client)
        if account is None or not holding.size:
            return
        account.open.pop(holding, None)
        account.size -= holding.size
        self.held -= holding.size
        if not holding.client.proven:
            self._strange -= holding.size
        if not account.size:
            del self._accounts[holding.client]
        size, holding.size = holding.size, 0
        self.freed(size)

    def freed(self, size: int) -> None:
        """Trim the heap where so much has been freed since the last time that it is worth it."""
        self._freed += size
        if self._freed >= _TRIM_BYTES and self._freed >= self.held:
            self._freed = 0
            trim_heap()

    def _over(self, client: Client, size: int) -> Literal["client", "strangers", "all"] | None:
        """Which bound so many bytes more would exceed."""
        account = self._accounts.get(client)
        if account is not None and account.size + size > self.limit // 2:
            return "client"
        if not client.proven and self._strange + size > self.limit * 3 // 4:
            return "strangers"
        return "all" if self.held + size > self.limit else None

    def _victim(self, holding: Holding, over: str, *, small: bool) -> Holding | None:
        """The incomplete request that gives way next; None where there is none."""
        client, now = holding.client, self.clock()
        victim, rank = None, (False, 0)
        for other, account in self._accounts.items():
            if (over == "client" and other != client) or other.proven > client.proven:
                continue
            oldest = next((incomplete for incomplete in account.open if incomplete is not holding), None)
            if oldest is None or (other == client and not small and now - oldest.began < _SLOW_SECONDS):
                continue
            if victim is None or (not other.proven, account.size) > rank:
                victim, rank = oldest, (not other.proven, account.size)
        return victim


budgets: weakref.WeakSet[Budget] = weakref.WeakSet()
"""Those of this process; the metrics read them."""


def trim_heap() -> None:
    """Give free memory back to the system.

    The allocator keeps what lies below the last piece in use, which may be one small object of another connection.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
    if trim is not None:
        trim(0)


def _nothing() -> None:
    pass
