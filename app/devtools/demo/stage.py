"""Runs the steps of the demo: shows each command and its output, and checks what the step promises."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import yaml
from rich.console import Console
from rich.syntax import Syntax

from app.errors import BerthError
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.retry import get_or_none
from app.wire import JSON

MANIFESTS = Path(__file__).parent / "manifests"
_PATIENCE = 30
T = TypeVar("T")


class DemoError(BerthError):
    """A step did not do what it promises."""


class Skipped(Exception):
    """The user goes on to the next part."""


class Quit(Exception):
    """The user has seen enough."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a part."""

    title: str
    play: Callable[[], Awaitable[None]]


class Stage:
    """Shows steps, `total` of them in all; `holds` raises DemoError at the first promise that is not kept.

    `ask` is awaited between two steps: the key that the user pressed.
    """

    def __init__(self, console: Console, ask: Callable[[], Awaitable[str]] | None = None) -> None:
        self._console = console
        self._ask = ask
        self.total = 0
        self._number = 0

    async def play(self, title: str, steps: Sequence[Step]) -> None:
        """Play the steps of a part. If the user skips the rest, the last step comes next, which cleans up.

        Raises DemoError at the first step that does not hold, Quit if the user ends the demo.
        """
        self._console.print(f"\n[bold reverse] {title} [/]", soft_wrap=True)
        first = self._number
        for index, step in enumerate(steps):
            self._number = first + index + 1
            await self._show(step)
            try:
                await self._pause()
            except Skipped:
                await self._skip(first + len(steps), steps[-1])
                break
        self._number = first + len(steps)

    async def _skip(self, number: int, last: Step) -> None:
        """What comes next, if anything does, has to find the cluster as it was."""
        if self._number < number < self.total:
            self._number = number
            await self._show(last)

    async def _show(self, step: Step) -> None:
        self._console.print(f"\n[bold]Step {self._number} of {self.total}: {step.title}[/]", soft_wrap=True)
        await step.play()

    async def _pause(self) -> None:
        if self._ask is None or self._number >= self.total:
            return
        match (await self._ask()).lower():
            case "s":
                raise Skipped
            case "q":
                raise Quit

    def command(self, text: str) -> None:
        """Show a command as it can be typed."""
        for line in text.split("\n"):
            self._console.print(line, style="cyan", highlight=False, soft_wrap=True, markup=False)

    def document(self, command: str, text: str) -> None:
        """Show a command that reads a document from its standard input."""
        self.command(command)
        self._console.print(Syntax(text.rstrip(), "yaml", background_color="default", word_wrap=False))
        self._console.print("EOF", style="cyan")

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def diff(self, before: JSON, after: JSON) -> None:
        lines = difflib.unified_diff(
            _yaml(before).splitlines(), _yaml(after).splitlines(), "as written", "as stored", lineterm="", n=2
        )
        self._console.print(Syntax("\n".join(lines), "diff", background_color="default"))

    def holds(self, promise: str, kept: bool) -> None:  # noqa: FBT001  the promise reads before its truth
        if not kept:
            raise DemoError(f"step {self._number}: want that {promise}, and it is not so")
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
            raise DemoError(f"step {self._number}: waited {_PATIENCE} s: want that {wish}") from None


def read_text(name: str) -> str:
    """A manifest of the demo as it stands."""
    return (MANIFESTS / name).read_text()


async def get_or_nothing(client: KubeClient, resource: Resource, name: str, *, namespace: str) -> JSON:
    """The object, {} where there is none."""
    return await get_or_none(client, resource, name, namespace=namespace) or {}


def _yaml(body: JSON) -> str:
    return yaml.safe_dump(body, sort_keys=True)
