"""How many connections a port has, and which gives way.

Each connection costs memory and a descriptor before it has said anything. Where all slots are taken, the oldest
connection that carries nothing gives way to the newest: first those that never brought a whole request, then those
that wait for the next one. A request under way is never cut off; where all slots carry one, the newest is refused.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable

from app.serving.memory import Budget, trim_heap

_CONNECTION_BYTES = 256 * 1024
"""What becomes free with a connection, at most: the buffers of TLS."""


class Slot:
    """A place in the pool for one connection; `close` ends that connection at once."""

    __slots__ = ("_pool", "close")

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self.close: Callable[[], object] = lambda: None

    @property
    def budget(self) -> Budget:
        """Of all connections of the port."""
        return self._pool.budget

    def busy(self) -> None:
        self._pool.fresh.pop(self, None)
        self._pool.idle.pop(self, None)

    def idle(self) -> None:
        if self in self._pool.taken:
            self._pool.idle[self] = None

    def served(self) -> None:
        """It was busy and is idle again."""
        # An answer that came before the whole request has left it in both.
        if self in self._pool.idle and self not in self._pool.fresh:
            self._pool.idle.move_to_end(self)
        else:
            self.busy()
            self.idle()

    def release(self) -> None:
        """The connection is closed. A second call has no effect."""
        self.busy()
        pool = self._pool
        if self in pool.taken:
            pool.taken.remove(self)
            pool.ended += 1
            pool.budget.freed(_CONNECTION_BYTES)
            if pool.ended >= pool.limit:
                pool.ended = 0
                _collect()
        # Breaks the reference cycle, which would keep the memory of the connection until the next collection.
        self.close = lambda: None


class ConnectionPool:
    """The slots of one port. Those in `fresh` and `idle` may be closed for a new connection, the oldest first.

    `budget` is that of the bytes which requests on them hold.
    """

    def __init__(self, limit: int, *, budget: Budget | None = None) -> None:
        self.limit = limit
        self.budget = budget or Budget()
        self.ended = 0
        self.taken: set[Slot] = set()
        self.fresh: OrderedDict[Slot, None] = OrderedDict()
        self.idle: OrderedDict[Slot, None] = OrderedDict()

    def acquire(self) -> Slot | None:
        """A slot, if necessary that of another connection; None where all of them carry requests."""
        if len(self.taken) >= self.limit and not self.evict():
            return None
        slot = Slot(self)
        self.taken.add(slot)
        self.fresh[slot] = None
        return slot

    def evict(self) -> bool:
        """Close the oldest connection without a request; False where all of them carry one."""
        slot = next(iter(self.fresh or self.idle), None)
        if slot is None:
            return False
        close = slot.close
        slot.release()
        close()
        return True


def _collect() -> None:
    """Collect all cycles and trim the heap: some 30 ms after thousands of connections.

    A connection leaves cycles behind, and pieces of its buffers between those of others. Neither the garbage collector,
    which counts objects and not bytes, nor the allocator would free them in time: the process would grow in a flood.
    """
    gc.collect()
    trim_heap()
