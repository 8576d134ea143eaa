"""What the handlers of the daemon answer: JSON for what goes well, and texts for what does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from app.devtools.rmd import reports
from app.devtools.rmd.failures import INTERNAL, Crash, Failure
from app.devtools.rmd.model import REST, Workload, read, to_json
from app.devtools.rmd.routing import JSON_TYPE, TEXT, Answer, Match, text
from app.devtools.rmd.workloads import NOT_FOUND, Daemon
from app.wire import JSON

UNREADABLE = "Failed to read request correctly. Please check request syntax and data"
_Handler = Callable[..., Awaitable[Answer]]


class Handlers:
    """The handlers of one daemon. `barrier` holds POSTs between validation and enforcement, for tests.

    Where it is set, and validation has no lock (see `Faults.unlocked_validation`), as many POSTs as it has parties are
    validated before one of them is enforced.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._lock = asyncio.Lock()
        self.barrier: asyncio.Barrier | None = None

    async def answer(self, match: Match, body: bytes) -> Answer:
        """The answer of the handler. Raises Crash where the daemon panics."""
        handler: _Handler = getattr(self, f"_{match.handler}")
        return await handler(body, *match.parts)

    async def _workloads(self, _body: bytes) -> Answer:
        return _json([to_json(one) for one in self._daemon.workloads()])

    async def _workload(self, _body: bytes, key: str) -> Answer:
        try:
            return _json(to_json(self._daemon.get(key)))
        except Failure as error:
            return text(error.status, error.text, TEXT)

    async def _create(self, body: bytes) -> Answer:
        asked = read(body)
        if asked.workload is None:
            raise Crash
        if not asked.whole:
            return text(INTERNAL, UNREADABLE, TEXT)
        try:
            return _json(to_json(await self._created(replace(asked.workload, origin=REST))), 201)
        except Failure as error:
            return text(error.status, error.text, TEXT)

    async def _created(self, one: Workload) -> Workload:
        if not self._daemon.faults.unlocked_validation:
            async with self._lock:
                return self._daemon.post(one)
        one = self._daemon.validate(one)
        if self.barrier is not None:
            await self.barrier.wait()
        return self._daemon.enforce(one)

    async def _patch(self, body: bytes, key: str) -> Answer:
        try:
            self._daemon.get(key)
            patch = read(body).workload
            if patch is None:
                raise Crash
            return _json(to_json(self._daemon.patch(key, patch)))
        except Failure as error:
            return _changing(error)

    async def _delete(self, _body: bytes, key: str) -> Answer:
        try:
            self._daemon.delete(key)
        except Failure as error:
            return _changing(error)
        return text(200, "")

    async def _cache(self, _body: bytes) -> Answer:
        return _json(reports.cache_summary(self._daemon.machine))

    async def _level(self, _body: bytes, level: str) -> Answer:
        shown = self._caches(level)
        return text(400, "") if shown is None else _json(shown)

    async def _one_cache(self, _body: bytes, level: str, key: str) -> Answer:
        if not key.isdecimal():
            return text(400, "Please input the correct id, it should be digital")
        shown = self._caches(level)
        if shown is None:
            return text(INTERNAL, "")
        number = int(key)
        if str(number) not in shown["Caches"]:
            return text(404, f"Cache id {number} for level 3 is not found")
        return _json(shown["Caches"][str(number)])

    def _caches(self, level: str) -> JSON | None:
        """None: it fails. The daemon loses the text of that failure."""
        try:
            return reports.caches(self._daemon) if level != "l2" else None
        except Failure:
            return None

    async def _policy(self, _body: bytes) -> Answer:
        try:
            return _json(reports.policies(self._daemon.machine))
        except Failure as error:
            return text(error.status, error.text)

    async def _mba(self, _body: bytes) -> Answer:
        return _json(reports.mba(self._daemon.machine))

    async def _hospitality(self, body: bytes) -> Answer:
        try:
            asked = json.loads(body)
        except ValueError as error:
            return text(INTERNAL, str(error), TEXT)
        try:
            return _json(reports.hospitality(self._daemon, asked))
        except Failure as error:
            return text(INTERNAL, error.text)


def _changing(error: Failure) -> Answer:
    """A failure of PATCH or DELETE: the handlers name the type of some texts alone."""
    named = error.text == NOT_FOUND or error.status == 200
    return text(error.status, error.text, TEXT) if named else text(error.status, error.text)


def _json(value: Any, status: int = 200) -> Answer:
    shown = json.dumps(value, indent=1, ensure_ascii=False).replace("\n", "\n ")
    return Answer(status, shown.encode(), JSON_TYPE)
