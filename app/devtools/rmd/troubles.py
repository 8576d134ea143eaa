"""What a client is given instead of the answer, or with it, where a test asks for a trouble."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Send

from app.devtools.rmd.faults import Kind, Trouble
from app.devtools.rmd.routing import JSON_TYPE, Answer, text

_WITHOUT_EFFECT = {
    Kind.NOT_JSON: Answer(200, b"<this is not JSON", JSON_TYPE),
    Kind.WRONG_TYPE: Answer(200, b"<html><body>It works!</body></html>", "text/html"),
}
_ENDLESS = b"0," * 4096


class Connection:
    """The connection of one request."""

    def __init__(self, transport: asyncio.Transport, receive: Receive, send: Send) -> None:
        self.transport, self._receive, self._send = transport, receive, send

    async def start(self, status: int, kind: str, length: int | None) -> None:
        headers = [(b"content-type", kind.encode())] if kind else []
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def answer(self, answer: Answer) -> None:
        await self.start(answer.status, answer.type, len(answer.body))
        await self.write(answer.body, more=False)

    async def gone(self) -> None:
        """Returns when the connection has ended."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def gone_within(self, seconds: float) -> bool:
        """Whether the connection ends in this time; returns when it does, or when the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self.gone()
        except TimeoutError:
            return False
        return True

    async def cut(self) -> None:
        """Close the connection at once."""
        self.transport.abort()
        await self.gone()


BEFORE = frozenset({Kind.HANG, Kind.NOT_JSON, Kind.WRONG_TYPE, Kind.ENDLESS, Kind.REFUSED, Kind.ERROR})
"""The troubles of requests that have no effect."""


async def withhold(trouble: Trouble, connection: Connection) -> None:
    """Do to a request what a trouble of `BEFORE` says."""
    match trouble.kind:
        case Kind.HANG:
            await connection.gone()
        case Kind.REFUSED:
            await connection.cut()
        case Kind.ERROR:
            await connection.answer(text(500, trouble.text))
        case Kind.ENDLESS:
            await connection.start(200, JSON_TYPE, None)
            await connection.write(b"[", more=True)
            while not connection.transport.is_closing():
                await connection.write(_ENDLESS, more=True)
                await asyncio.sleep(0)
            await connection.gone()
        case other:
            await connection.answer(_WITHOUT_EFFECT[other])


async def give(trouble: Trouble | None, answer: Answer, connection: Connection) -> None:
    """Give an answer, or do with it what the trouble says."""
    match trouble.kind if trouble is not None else None:
        case Kind.HANG_AFTER:
            await connection.gone()
        case Kind.LOST_ANSWER:
            await connection.cut()
        case Kind.TRUNCATED:
            await connection.start(answer.status, answer.type, len(answer.body) + 1)
            await connection.write(answer.body, more=True)
            connection.transport.close()
            await connection.gone()
        case Kind.SLOW if trouble is not None:
            if not await connection.gone_within(trouble.seconds):
                await connection.answer(answer)
        case _:
            await connection.answer(answer)
