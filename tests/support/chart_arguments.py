"""Reads a container's arguments as the command line does, before the command runs."""

from __future__ import annotations

import click
import typer.main

from app.cli.main import cli, normalize
from app.cli.options import switches_of
from app.cli.roles import given
from app.registry import ROLES
from app.registry import settings_of as settings_class
from app.settings.source import RoleSettings
from tests.support.chart import JSON

_COMMAND = typer.main.get_command(cli)
_ROLES = {role.name: role for role in ROLES}


def parsed(arguments: list[str]) -> dict[str, object]:
    """What the command line makes of a container's arguments, before the command runs."""
    words = normalize(arguments, switches=switches_of(_COMMAND, arguments))
    command = _COMMAND
    context = click.Context(command)
    while isinstance(command, click.Group) or hasattr(command, "commands"):
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]  # a group, Typer's or click's
    return command.make_context("berth", words, parent=context).params


def settings_of(role: str, container: JSON) -> RoleSettings:
    variables = {one["name"] for one in container.get("env") or ()}
    node: dict[str, object] = {"node_name": "worker-1"} if "NODE_NAME" in variables else {}
    return settings_class(role).load(node | given(_ROLES[role], parsed(container["args"])), environment=False)
