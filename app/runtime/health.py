"""Health in a thread with an event loop of its own, so that it answers while the one of the role is busy.

Readiness is what the role last published. Metrics are taken in the role's own loop, whose objects they count: they wait
for it, and nothing waits for them.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable

from app.admission.server import health_app, make_server

HUNG_SECONDS = 60.0
"""Seconds without a turn after which an event loop must hang: the longest review has eight seconds, and a probe that
restarts a busy process would make things worse."""
_GRACE_SECONDS = 1


class Health:
    """What the plain port of a role answers. `metrics` gives the exposition and its content type.

    `published` is to be called in the loop of the role, much more often than once in `HUNG_SECONDS`.
    """

    def __init__(
        self, metrics: Callable[[], tuple[bytes, str]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics, self._clock = metrics, clock
        self._waiting = ["not started"]
        self._seen_at = clock()

    def published(self, waiting: list[str]) -> None:
        """What readiness waits for now; it says as well that the loop has a turn."""
        self._waiting, self._seen_at = waiting, self._clock()

    def hung(self) -> str:
        """Why the process should be restarted, "" where its loop has had a turn lately."""
        silent = self._clock() - self._seen_at
        if silent <= HUNG_SECONDS:
            return ""
        return f"the event loop has had no turn for {silent:.0f} s: after {HUNG_SECONDS:g} s it counts as hung"

    def waiting(self) -> list[str]:
        return [*self._waiting, *filter(None, [self.hung()])]

    async def serve(self, listener: socket.socket) -> None:
        """Until cancelled; the listener is closed then. Raises what the server died of."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        async def exposition() -> tuple[bytes, str]:
            return self._metrics()

        async def exposed() -> tuple[bytes, str]:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(exposition(), loop))

        server = make_server(
            health_app(readiness=self.waiting, metrics=exposed, hung=self.hung), grace_seconds=_GRACE_SECONDS
        )

        def end(error: Exception | None) -> None:
            if error is not None and not ended.done():
                ended.set_exception(error)
            elif not ended.done():
                ended.set_result(None)

        def run() -> None:
            fault: Exception | None = None
            try:
                asyncio.run(server.serve(sockets=[listener]))
            except Exception as error:  # noqa: BLE001  raised in the task of the role
                fault = error
            loop.call_soon_threadsafe(end, fault)

        threading.Thread(target=run, name="health", daemon=True).start()
        try:
            await asyncio.shield(ended)
        finally:
            server.should_exit = True
            await asyncio.wait({ended})
