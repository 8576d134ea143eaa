"""Reads a container's arguments as the command line does, before the command runs."""

from __future__ import annotations

import click
import typer.main

from app.cli.goflags import normalize
from app.cli.main import _SWITCHES, cli
from app.cli.options import given
from app.settings import agent, certificates, controller, gateway, webhook
from app.settings.source import RoleSettings
from tests.chart.conftest import JSON

SETTINGS = {
    "webhook": webhook.load,
    "controller": controller.load,
    "gateway": gateway.load,
    "agent": agent.load,
    "certificates": certificates.load,
}

_COMMAND = typer.main.get_command(cli)


def parsed(arguments: list[str]) -> dict[str, object]:
    """What the command line makes of a container's arguments, before the command runs."""
    words = normalize(arguments, switches=_SWITCHES)
    command = _COMMAND
    context = click.Context(command)
    while isinstance(command, click.Group) or hasattr(command, "commands"):
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]  # a group, Typer's or click's
    return given(command.make_context("berth", words, parent=context).params)


def settings_of(role: str, container: JSON) -> RoleSettings:
    flags = {name: value for name, value in parsed(container["args"]).items() if value != ()}
    flags = {name: tuple(value) if isinstance(value, list) else value for name, value in flags.items()}
    return SETTINGS[role](flags, environment=False)
