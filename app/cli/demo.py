"""`berth demo`: the injection example and the walk-through of the Workload API, against a sandbox of its own."""

from __future__ import annotations

import asyncio
from typing import Annotated, cast

import typer
from rich.console import Console

from app.cli.options import devtool, paragraphs

EPILOG = paragraphs("""Examples:

  berth demo

  berth demo --log-level info

Exits 0 when every step held, 1 at the first that did not.""")


def demo(log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "error") -> int:
    """Start a sandbox and play the examples in it, step by step; exits 0 only if every step holds."""
    run_demo = devtool("app.devtools.demo.play:run_demo")
    return cast("int", asyncio.run(run_demo(Console(), log_level=log_level)))
