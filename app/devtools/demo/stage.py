"""Runs the steps of the demo: shows each command and its output, and checks what the step promises."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import TypeVar

import yaml
from rich.console import Console
from rich.syntax import Syntax

from app.errors import BerthError
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.retry import get_or_none
from app.wire import JSON, load_yaml

_MANIFESTS = resources.files("app.devtools.demo") / "manifests"
_PATIENCE = 30
T = TypeVar("T")


class DemoError(BerthError):
    """A step did not do what it promises."""


class Stage:
    """Counts the steps; `holds` raises DemoError at the first promise that is not kept.

    `pause` is awaited between two steps.
    """

    def __init__(self, console: Console, pause: Callable[[], Awaitable[None]] | None = None) -> None:
        self._console = console
        self._pause = pause
        self.steps = 0

    def act(self, text: str) -> None:
        self._console.print(f"\n[bold reverse] {text} [/]")

    async def title(self, text: str) -> None:
        """Begin the next step."""
        if self.steps and self._pause is not None:
            await self._pause()
        self.steps += 1
        self._console.print(f"\n[bold]{self.steps}. {text}[/]")

    def command(self, text: str, *, where: str = "") -> None:
        prompt = f"{where}> " if where else "$ "
        lead = prompt
        for line in text.split("\n"):
            self._console.print(lead + line, style="cyan", highlight=False, soft_wrap=True, markup=False)
            # What a here-document holds is taken as it stands, its end too.
            lead = "" if "<<" in line or not lead else " " * len(prompt)

    def manifest(self, name: str, *, where: str = "", verb: str = "create") -> JSON:
        """Show that a manifest of the demo is sent; returns it."""
        return self.typed(self.text(name), where=where, verb=verb)

    @staticmethod
    def text(name: str) -> str:
        """A manifest of the demo as it stands."""
        return (_MANIFESTS / name).read_text()

    def typed(self, text: str, *, where: str = "", verb: str = "create") -> JSON:
        """Show what is typed, and return what is sent."""
        self.command(f"kubectl {verb} -f - <<EOF", where=where)
        self._console.print(Syntax(text.rstrip(), "yaml", background_color="default", word_wrap=False))
        self._console.print("EOF", style="cyan")
        body: JSON = load_yaml(text)
        return body

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def table(self, *rows: tuple[str, ...]) -> None:
        """Columns as kubectl prints them."""
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            self.say("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def diff(self, before: JSON, after: JSON) -> None:
        lines = difflib.unified_diff(
            _yaml(before).splitlines(), _yaml(after).splitlines(), "as written", "as stored", lineterm="", n=2
        )
        self._console.print(Syntax("\n".join(lines), "diff", background_color="default"))

    def holds(self, promise: str, kept: bool) -> None:  # noqa: FBT001  the promise reads before its truth
        if not kept:
            raise DemoError(f"step {self.steps}: want that {promise}, and it is not so")
        self._console.print(f"  [green]✓[/] {promise}", highlight=False)

    async def until(self, wish: str, look: Callable[[], Awaitable[T]], *, true: Callable[[T], bool] = bool) -> T:
        """What `look` gives once it is as wished; DemoError that says what was wished after half a minute."""
        try:
            async with asyncio.timeout(_PATIENCE):
                while True:
                    found = await look()
                    if true(found):
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise DemoError(f"step {self.steps}: waited {_PATIENCE} s: want that {wish}") from None


def read_manifest(name: str) -> JSON:
    """A manifest of the demo."""
    body: JSON = load_yaml((_MANIFESTS / name).read_text())
    return body


async def get_or_nothing(client: KubeClient, resource: Resource, name: str, *, namespace: str) -> JSON:
    """The object, {} where there is none."""
    return await get_or_none(client, resource, name, namespace=namespace) or {}


def _yaml(body: JSON) -> str:
    return yaml.safe_dump(body, sort_keys=True)
