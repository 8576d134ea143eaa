"""`berth version`: what runs here, as text or JSON."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of
from typing import Annotated, Literal

import typer

from app.cli.options import alone, epilog
from app.wire import encode_json

version_app = alone()


@version_app.command(epilog=epilog("berth version", "berth version -o json"))
def version(
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Form of the answer")] = "text",
) -> None:
    """Print the version of Berth and of Python."""
    versions = {"version": version_of("berth"), "python": platform.python_version()}
    if output == "json":
        print(encode_json(versions).decode())
    else:
        print(f"berth {versions['version']} (Python {versions['python']})")
