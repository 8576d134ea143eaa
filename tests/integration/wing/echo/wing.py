"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Argument, Chart, Controller, Role, Wing

ECHOER = Role(
    name="echoer",
    settings="app.echo.settings:EchoerSettings",
    build="app.echo.build:echoer",
    summary="Listen for echoes in the infra cluster.",
    examples=("berth echoer",),
    chart=Chart(arguments=(Argument("echo_distance"),)),
    needs="infra",
    lease="berth-echoer",
    when_down="nothing listens",
    when_idle="nothing listens",
    when_refused={"": "nothing is heard"},
)

WING = Wing(
    "echo",
    kinds={"infra": "app.echo.needs:KINDS"},
    reviews="app.echo.needs:REVIEWS",
    asks="app.echo.needs:ASKS",
    parts="app.echo.build:review",
    controllers=(
        Controller("echoes", "app.echo.build:controller"),
        Controller("choirs", "app.echo.choirs:build"),
    ),
    permissions="app.echo.needs:PERMISSIONS",
    settings={"webhook": "app.echo.settings:EchoWebhookSettings", "controller": "app.echo.settings:EchoSettings"},
    arguments={"webhook": (Argument("echo_annotation"),), "controller": (Argument("echo_suffix"),)},
    checks=("app.echo.checks:CHECK",),
    status=("app.echo.sections:SECTION",),
    why="app.echo.why:JUDGES",
    metrics={"app.echo.metrics": ("controller",)},
    roles=(ECHOER,),
)
