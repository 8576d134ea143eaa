"""The page of a sandbox: it begins with the first browser, and ends with the sandbox."""

from __future__ import annotations

import asyncio

import aiohttp

from app.devtools.clusters.page import page_of
from app.devtools.clusters.sandbox import Running, Whole
from tests.support.sandbox import Sandboxed, sandboxed
from tests.support.waiting import PATIENCE

__all__ = ["sandboxed"]


def whole_of(server: Sandboxed) -> Whole:
    return Whole(
        (Running("one", server.url, server.kubeconfig(), ()), Running("two", server.url, server.kubeconfig(), ()))
    )


async def test_the_first_browser_is_answered(sandboxed: Sandboxed) -> None:
    async with page_of(whole_of(sandboxed)) as address, aiohttp.ClientSession() as session:
        async with asyncio.timeout(PATIENCE), session.get(f"{address}overview?cluster=two") as answer:
            text = await answer.text()
        assert answer.status == 200
        assert 'href="/overview?cluster=two" aria-current="true"' in text


async def test_a_page_that_nobody_opens_ends_at_once(sandboxed: Sandboxed) -> None:
    async with asyncio.timeout(PATIENCE), page_of(whole_of(sandboxed)) as address:
        assert address.startswith("http://127.0.0.1:")
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert tasks == []
