"""The settings of the wing."""

from __future__ import annotations

from typing import Annotated

from app.settings.reconciling import ReconcilingSettings
from app.settings.source import Flag, RoleSettings


class EchoWebhookSettings(RoleSettings):
    echo_annotation: Annotated[str, Flag("Annotation that every Pod gets its echo in", "Echo")] = (
        "echo.example.com/heard"
    )


class EchoSettings(RoleSettings):
    echo_suffix: Annotated[str, Flag("What the status adds to the text", "Echo")] = "!"


class EchoerSettings(ReconcilingSettings):
    echo_distance: Annotated[int, Flag("Meters to the wall", "Echo")] = 17
