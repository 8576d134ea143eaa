"""What an attacker sends to the page, and an API server that goes away and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml

from app.ui import site
from app.ui.catalog import VIEWS
from tests.integration.ui.test_callers import Callers, Files, callers, files, reviewed
from tests.support.page import Page, page_of, until
from tests.support.sandbox import Sandboxed, sandboxed
from tests.support.waiting import PATIENCE

__all__ = ["Files", "callers", "files", "sandboxed"]
MARK = "\u202e"
"""Writes what follows from right to left."""


async def raw(page: Page, request: bytes) -> bytes:
    """The answer to these bytes, on a connection of their own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", page.port)
    try:
        writer.write(request)
        async with asyncio.timeout(PATIENCE):
            return await reader.read()
    finally:
        writer.close()


def get(page: Page, path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: localhost:{page.port}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode()


async def test_a_thousand_wrong_tokens_cost_few_reviews(
    callers: Callers, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 20 addresses: 10 of each are reviewed, and of all no more than 100. A caller that is known goes on."""
    reviews = reviewed(monkeypatch)
    victim = callers.token("victim")
    assert (await callers.page.get("/api", **victim)).status == 200
    reviews.clear()

    async def guesses(number: int) -> list[int]:
        connector = aiohttp.TCPConnector(ssl=files.client(), local_addr=(f"127.0.0.{number}", 0))
        statuses = list[int]()
        async with aiohttp.ClientSession(connector=connector) as session:
            for guess in range(50):
                headers = {"Authorization": f"Bearer wrong-{number}-{guess}"}
                async with asyncio.timeout(PATIENCE), session.get(f"{callers.page.url}/api", headers=headers) as answer:
                    statuses.append(answer.status)
        return statuses

    every = await asyncio.gather(*(guesses(number) for number in range(2, 22)))
    assert len(reviews) <= 100
    assert all(statuses.count(401) <= 10 for statuses in every)
    assert sum(statuses.count(429) for statuses in every) >= 900
    assert (await callers.page.get("/api", **victim)).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../site.py",
        "/static/..%2fsite.py",
        "/static/%2e%2e/site.py",
        "/static/..%5csite.py",
        "/static//etc/passwd",
        "/static/LICENSES.md",
        "//etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/static/%00ui.css",
    ],
)
async def test_a_path_leads_to_assets_alone(sandboxed: Sandboxed, path: str) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        answer = await raw(page, get(page, path))
        assert answer.split()[1] in (b"404", b"400"), answer
        assert b"root:" not in answer
        assert b"The application" not in answer


async def test_what_is_too_long_is_refused(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        assert (await raw(page, get(page, f"/why?q={'a' * 9000}"))).split()[1] == b"414"
        assert (await raw(page, get(page, f"/{'a' * 200_000}"))).split()[1:2] != [b"200"]
        assert (await raw(page, get(page, "/why", f"X: {'a' * 200_000}"))).split()[1:2] != [b"200"]
        assert (await page.get("/why")).status == 200


async def test_a_form_that_does_not_come_is_not_waited_for(
    callers: Callers, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a token: it would hold one of the connections for ever."""
    monkeypatch.setattr(site, "FORM_SECONDS", 0.1)
    page = callers.page
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", page.port, ssl=files.client(), server_hostname="localhost"
    )
    lines = [
        "POST /login HTTP/1.1",
        f"Host: localhost:{page.port}",
        f"Origin: {page.url}",
        "Content-Length: 100",
        "",
        "",
    ]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(PATIENCE):
        assert (await reader.readline()).split()[1] == b"408"
    writer.close()


async def test_heads_that_do_not_end_leave_room_for_others(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        writers = list[asyncio.StreamWriter]()
        try:
            for _ in range(100):
                _, writer = await asyncio.open_connection("127.0.0.1", page.port)
                writer.write(b"GET /why HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
                writers.append(writer)
            assert (await page.get("/why")).status == 200
        finally:
            for writer in writers:
                writer.close()


async def test_long_names_and_marks_of_direction_are_text(sandboxed: Sandboxed) -> None:
    home, name = sandboxed.namespace(), ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    annotations = {"k8s.v1.cni.cncf.io/networks": f"net{MARK}gpj.exe"}
    body = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": MARK}]},
    }
    assert sandboxed.request("POST", f"/api/v1/namespaces/{home}/pods", body).status == 201
    async with page_of(sandboxed.kubeconfig()) as page:
        for path in (f"/why?q=pod/{name}&namespace={home}", f"/objects?kind=pods&namespace={home}"):
            answer = await page.get(path)
            assert answer.status == 200, path
            assert MARK not in answer.text, path
        said = (await page.get(f"/api/why?q=pod/{name}&namespace={home}")).json["said"]
        assert name in said["subject"]


class Wire:
    """Leads to the API server, and can be cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server: asyncio.Server | None = None
        self._leads = set[asyncio.Task[None]]()
        self._writers = set[asyncio.StreamWriter]()
        self.port = 0

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Ends all connections; further ones are refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for _ in range(10):  # connections that are accepted already become writers
            await asyncio.sleep(0)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._leads, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._keep(writer)
        lead = asyncio.create_task(self._lead(reader, writer))
        self._leads.add(lead)
        lead.add_done_callback(self._leads.discard)

    def _keep(self, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        if self._server is None:  # connected while it was cut
            writer.transport.abort()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there = await asyncio.open_connection("127.0.0.1", self._to)
        self._keep(there)
        await asyncio.gather(_copy(reader, there), _copy(there_reader, writer))
        self._writers -= {writer, there}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def wired(server: Sandboxed, folder: Path) -> AsyncIterator[tuple[Wire, Path]]:
    """A wire to the API server, and a kubeconfig that goes by it."""
    wire = Wire(urlsplit(server.url).port or 0)
    await wire.mend()
    config = yaml.safe_load(server.kubeconfig().read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{wire.port}"
    path = folder / "wired.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        yield wire, path
    finally:
        await wire.cut()


async def test_an_api_server_that_goes_away_is_said_at_once(sandboxed: Sandboxed, tmp_path: Path) -> None:
    """In each stream and each page, with what was there before; results alone would stand for a minute."""
    async with (
        wired(sandboxed, tmp_path) as (wire, kubeconfig),
        page_of(kubeconfig, look=PATIENCE) as page,
        contextlib.AsyncExitStack() as stack,
    ):
        streams = {}
        for view in VIEWS:
            assert (await page.get(f"/{view.name}")).status == 200
            streams[view.name] = await stack.enter_async_context(page.stream(f"/events/{view.name}"))
            await until(streams[view.name], "problem", "")
        await wire.cut()
        for name, events in streams.items():
            said = await until(events, "problem", "the API server does not answer")
            assert re.fullmatch(r"since 20\S+Z the API server does not answer: .+; what is shown is from before", said)
            now = await page.get(f"/{name}")
            assert now.status == 503, name
            assert said in now.text, name
            assert 'class="fragment"' in now.text, name
            assert (await page.get(f"/api/{name}")).json == {"error": html.unescape(said)}
        await wire.mend()
        for events in streams.values():
            assert await until(events, "problem") == ""


async def test_an_api_server_that_comes_back_is_shown_again(sandboxed: Sandboxed, tmp_path: Path) -> None:
    home = sandboxed.namespace()
    async with wired(sandboxed, tmp_path) as (wire, kubeconfig), page_of(kubeconfig) as page:
        path = f"kind=pods&namespace={home}"
        async with page.stream(f"/events/objects?{path}") as events:
            await until(events, "f-page", "There are none")
            await wire.cut()
            # What was not read before cannot be shown.
            assert (await page.get("/api/objects?kind=jobs.batch")).status == 503
            pod = {"metadata": {"name": "meanwhile"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            assert sandboxed.request("POST", f"/api/v1/namespaces/{home}/pods", pod).status == 201
            await wire.mend()
            await until(events, "f-page", "meanwhile")
