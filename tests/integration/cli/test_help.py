"""The list of commands is shown without what the commands need."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer.main

from app.cli.main import cli
from app.registry import WINGS
from tests.support.paths import ROOT

PROGRAM: Any = typer.main.get_command(cli)
SCRIPT = """
import sys
from app.cli.main import run
run(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_the_list_of_commands_imports_no_wing(argument: str) -> None:
    command = [sys.executable, "-c", SCRIPT, argument]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    modules = set(done.stderr.split())
    folders = tuple(f"app.{wing.name}." for wing in WINGS)
    assert {module for module in modules if module.startswith(folders)} == {f"{folder}wing" for folder in folders}
    assert not modules & {"app.doctor", "app.explain", "app.runtime", "app.devtools"}
    assert not modules & {"aiohttp", "cryptography", "fastapi", "grpc", "kubernetes"}
    assert not modules & {"pydantic", "structlog", "rich.console"}


@pytest.mark.parametrize("name", PROGRAM.commands)
def test_the_list_says_of_a_command_what_its_help_begins_with(name: str) -> None:
    listed = PROGRAM.get_command(None, name)
    assert " ".join(PROGRAM.commands[name].help.split()).startswith(listed.help)
