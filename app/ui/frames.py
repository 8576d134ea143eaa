"""What a view shows at a time: made once for all browsers of a caller, and whether it is out of date."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from app.doctor.catalog import plain
from app.errors import ApiError
from app.ui.footprints import Signal
from app.ui.rights import KEPT
from app.ui.view import Asked, Model, View

_FRAMES = 500
_AWAY = 2.0
"""Seconds after which an API server that did not answer is asked again."""


@dataclass(frozen=True, slots=True)
class Frame:
    """`problem` says that the API server does not answer. Then the model is the last one; None if there was none.

    `digests` has one for each fragment of the page, `digest` is that of the whole.
    """

    model: Model | None
    problem: str
    digests: Mapping[str, str]
    digest: str
    signals: Sequence[Signal]
    until: float
    html: dict[str, str] = field(default_factory=dict)
    """Fragments that are written already."""

    def holds(self, now: float) -> bool:
        return now < self.until and not any(signal.stale for signal in self.signals)

    def with_problem(self, problem: str, signals: Sequence[Signal], until: float) -> Frame:
        """The same, shown as out of date."""
        if self.model is not None:
            problem += "; what is shown is from before"
        whole = _digest([problem, *self.digests.items()])
        return replace(self, problem=problem, digest=whole, signals=signals, until=until)

    def left(self, now: float) -> float:
        """Seconds until it is too old."""
        return max(0.0, self.until - now)

    async def outdated(self, most: float) -> None:
        """Wait until something that it was made of has changed; for so many seconds at most."""
        changed = asyncio.Event()
        for signal in self.signals:
            signal.wakes(changed)
        with suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), most)
        for signal in self.signals:
            signal.forget(changed)


class Frames:
    """The frames that were made last."""

    def __init__(self, views: Mapping[str, View], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._views, self._clock = views, clock
        self._tasks: OrderedDict[Hashable, asyncio.Task[Frame]] = OrderedDict()

    async def of(self, asked: Asked) -> Frame:
        """The present frame: the one that is known, if it still holds."""
        key = (asked.rights.key, asked.source.name, asked.view, tuple(sorted(asked.query.items())))
        task, last = self._tasks.get(key), None
        if task is not None and task.done():
            last = None if task.cancelled() or task.exception() is not None else task.result()
            if last is None or not (last.holds(self._clock()) or (last.model and asked.source.stores.silence)):
                task = None
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._make(asked, last))
            while len(self._tasks) > _FRAMES:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(key)
        frame, stores = await asyncio.shield(task), asked.source.stores
        if stores.silence is None:
            return frame
        # What the API server said last stays until it answers again.
        return frame.with_problem(str(stores.silence), (stores.turn,), self._clock() + KEPT)

    async def _make(self, asked: Asked, last: Frame | None) -> Frame:
        asked.used.clear()
        turn = asked.source.stores.turn
        try:
            model = await self._views[asked.view].read(asked)
        except ApiError as error:
            until = self._clock() + _AWAY
            if last is None or last.model is None or 0 < error.status < 500:
                last = Frame(None, "", {}, "", (), until)
            return last.with_problem(f"the API server could not be asked: {plain(error)}", (turn,), until)
        until = min([self._clock() + KEPT, *(signal.until for signal in asked.used)])
        return frame_of(model, (*asked.used, turn), until)


def frame_of(model: Model, signals: Sequence[Signal] = (), until: float = 0.0) -> Frame:
    """What is shown of a model."""
    digests = {name: _digest(value) for name, value in model.fragments().items()}
    return Frame(model, "", digests, _digest(digests), signals, until)


def _digest(value: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=12).hexdigest()
