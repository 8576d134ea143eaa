"""What a view shows at a time: made once for all browsers of a caller, and whether it is out of date."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
    """`model` is None where the API server did not answer, which `problem` says; then nothing else is known.

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
        """The present frame: the one that is known, where it still holds."""
        key = (asked.rights.key, asked.source.name, asked.view, tuple(sorted(asked.query.items())))
        task = self._tasks.get(key)
        if (
            task is not None
            and task.done()
            and (task.cancelled() or task.exception() is not None or not task.result().holds(self._clock()))
        ):
            task = None
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._make(asked))
            while len(self._tasks) > _FRAMES:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(key)
        return await asyncio.shield(task)

    async def _make(self, asked: Asked) -> Frame:
        asked.used.clear()
        try:
            model = await self._views[asked.view].read(asked)
        except ApiError as error:
            problem = f"The API server could not be asked: {plain(error)}"
            return Frame(None, problem, {}, _digest(problem), (), self._clock() + _AWAY)
        until = min([self._clock() + KEPT, *(signal.until for signal in asked.used)])
        return frame_of(model, tuple(asked.used), until)


def frame_of(model: Model, signals: Sequence[Signal] = (), until: float = 0.0) -> Frame:
    """What is shown of a model."""
    digests = {name: _digest(value) for name, value in model.fragments().items()}
    return Frame(model, "", digests, _digest(digests), signals, until)


def _digest(value: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=12).hexdigest()
