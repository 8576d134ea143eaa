"""Chromium of the system, driven by Playwright, and what is asked of every page that it shows."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright, expect

from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE

CHROMIUM = os.environ.get("BERTH_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
expect.set_options(timeout=PATIENCE * 1000)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: apt-get install --yes --no-install-recommends chromium"
)
_AXE = ROOT / "tests/support/axe/axe.min.js"
_VIOLATIONS = """async () => {
  const found = await axe.run(document, {resultTypes: ['violations']});
  return found.violations.map(rule => rule.id + ': ' + rule.nodes.map(node => node.html + ' ' + node.failureSummary).join(' | '));
}"""


@dataclass
class Tab:
    """A page in the browser, with what it has asked for and complained about."""

    page: Page
    host: str
    foreign: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def note(self, request: Request) -> None:
        if urlsplit(request.url).netloc != self.host:
            self.foreign.append(request.url)

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    async def is_sound(self) -> None:
        """Nothing is broken, reaches elsewhere, is wider than the window, or keeps someone from using it."""
        assert self.foreign == []
        assert self.complaints == []
        wide, window = await self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window, f"{self.page.url}: {wide} pixels wide in {window}"

    async def is_accessible(self) -> None:
        # The policy of the page forbids foreign scripts; the debugger's are not among them.
        await self.page.evaluate(_AXE.read_text())
        assert await self.page.evaluate(_VIOLATIONS) == []


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=PATIENCE * 1000)
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def tab(browser: Browser, url: str, **options: Any) -> AsyncIterator[Tab]:
    """A new tab, in a profile of its own, that shows the address."""
    context = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE * 1000)
    try:
        shown = Tab(await context.new_page(), urlsplit(url).netloc)
        shown.page.on("request", shown.note)
        shown.page.on("console", shown.hear)
        shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
        await shown.page.goto(url)
        yield shown
    finally:
        await context.close()
