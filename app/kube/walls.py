"""The wall of tasks that handle objects: what one object raises ends neither the task nor the group that it is in.

Every task of a role that reads objects is made with `standing`; `tests/integration/runtime/test_walls.py` looks at all
tasks of all roles. Inside of it `wall` stands around the work for one object, so that those after it are handled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog

from app.errors import ApiError, BerthError, is_final
from app.kube.retry import Backoff
from app.metrics import HANDLING_FAULTS

log = structlog.get_logger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a task that raised goes on."""
_CALM = 60.0
"""Seconds without a fault after which the pauses are short again."""


def fault(loop: str, message: str = "object dropped", /, **of: object) -> None:
    """Count and log the exception that is being handled; `of` says which object it was, `loop` whose task."""
    HANDLING_FAULTS.labels(loop).inc()
    log.exception(message, loop=loop, **of)  # noqa: LOG004  the caller handles it


@contextmanager
def wall(loop: str, *, leave: tuple[type[Exception], ...] = (), **of: object) -> Iterator[None]:
    """Drop the object that raises in this block, with a log line and a count; errors of `leave` go on."""
    try:
        yield
    except leave:
        raise
    except Exception:  # noqa: BLE001  the wall: the objects after this one are handled
        fault(loop, "object dropped", **of)


class Patience:
    """Which fault of an API server ends a pass over objects.

    One of the server as a whole does at once: each object would wait for it. One that gives no answer in time may do so
    for one object; for the second it does.
    """

    def __init__(self) -> None:
        self._waited = False

    def ends(self, error: ApiError) -> bool:
        over = error.about_server or (error.late and self._waited)
        self._waited = self._waited or error.late
        return over


class Apart:
    """The wall between the objects that one pass writes: what one of them meets is raised after all had their turn.

    What `Patience` says of an API server is raised at once.
    """

    def __init__(self) -> None:
        self._faults: list[Exception] = []
        self._patience = Patience()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around all that is done for one object."""
        try:
            yield
        except Exception as error:
            if isinstance(error, ApiError) and self._patience.ends(error):
                raise
            self._faults.append(error)

    @property
    def whole(self) -> bool:
        """Whether no step has failed."""
        return not self._faults

    def end(self) -> None:
        """Raise the first fault: of bugs, else of what may pass, else of what stays."""
        if self._faults:
            raise min(self._faults, key=_rank)


def _rank(error: Exception) -> int:
    return 2 if is_final(error) else 1 if isinstance(error, BerthError) else 0


async def standing(loop: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` until it returns or is cancelled; where it raises, again after a growing pause.

    `work` keeps what it has to do outside of the call, so that another call goes on with it.
    """
    HANDLING_FAULTS.labels(loop)
    backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
    while True:
        begun = time.monotonic()
        try:
            await work()
        except Exception:  # noqa: BLE001  the wall: a task that ended would end its group, and the process with it
            fault(loop, "task goes on after a fault")
        else:
            return
        if time.monotonic() - begun >= _CALM:
            backoff.reset()
        await asyncio.sleep(backoff.next(at_least=_FIRST_PAUSE / 2))
