"""The page of `berth ui` for tests: served over real HTTP beside the API server of the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from app.kube.transport import connect
from app.serving.listener import bind
from app.ui.catalog import VIEWS
from app.ui.serving import Named, make_server, sources_of
from app.ui.site import Site
from app.ui.view import Source, View
from app.ui.visitors import Access, OnLaptop
from tests.support.waiting import PATIENCE, eventually


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    headers: Any

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Page:
    """A page that is served, and requests to it."""

    def __init__(self, port: int, scheme: str, session: aiohttp.ClientSession, sources: Sequence[Source]) -> None:
        self.port, self.scheme, self.session, self.sources = port, scheme, session, sources
        self.url = f"{scheme}://localhost:{port}"

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.send("GET", path, headers)

    async def send(self, method: str, path: str, headers: dict[str, str], data: Any = None) -> Answer:
        request = self.session.request(method, self.url + path, headers=headers, data=data, allow_redirects=False)
        async with asyncio.timeout(PATIENCE), request as answer:
            return Answer(answer.status, await answer.text(), answer.headers)

    @contextlib.asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[AsyncIterator[tuple[str, str]]]:
        """The events of a stream: name and data."""
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with self.session.get(self.url + path, headers=headers, timeout=timeout) as answer:
            assert answer.status == 200, await answer.text()
            yield _events(answer)


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, str]]:
    name, data = "", list[str]()
    async for raw in answer.content:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data.append(line.removeprefix("data: "))
        elif not line and name:
            yield name, "\n".join(data)
            name, data = "", []


async def until(events: AsyncIterator[tuple[str, str]], name: str, text: str = "") -> str:
    """The data of the first event of this name that has the text."""
    async for event, data in events:
        if event == name and text in data:
            return data
    raise AssertionError(f"the stream ended without {name} with {text!r}")


@contextlib.asynccontextmanager
async def page_of(
    *kubeconfigs: Path,
    access: Any = None,
    context: ssl.SSLContext | None = None,
    client: ssl.SSLContext | None = None,
    views: Sequence[View] = VIEWS,
    clock: Callable[[], float] = time.monotonic,
    **options: float,
) -> AsyncIterator[Page]:
    """A page of these clusters. `access` makes the access of a client; `client` is the TLS of who asks."""
    async with contextlib.AsyncExitStack() as stack:
        named = list[Named]()
        for path in kubeconfigs:
            kube = await stack.enter_async_context(await connect(kubeconfig=str(path)))
            named.append(Named(path.stem, kube))
        sources = await stack.enter_async_context(sources_of(named))
        chosen: Access = OnLaptop() if access is None else access(named[0].client)
        listener = bind("127.0.0.1", 0)
        port = listener.getsockname()[1]
        options = {"pace": 0.05, "look": 0.2} | options
        server = make_server(Site(sources, chosen, views, clock=clock, **options), context=context)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await eventually(lambda: server.started)
        connector = aiohttp.TCPConnector(ssl=client if client is not None else True)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        )
        try:
            yield Page(port, "http" if context is None else "https", session, sources)
        finally:
            server.should_exit = True
            server.force_exit = True
            await task
