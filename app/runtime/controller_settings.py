"""The settings of `berth controller`, to which each wing adds its own."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from app.registry import CONTROLLERS
from app.settings.reconciling import ReconcilingSettings
from app.settings.source import RECONCILING, Flag, Items

_NAMES = tuple(CONTROLLERS)
_USUAL = tuple(controller.name for controller in CONTROLLERS.values() if controller.usual)


class ControllerSettings(ReconcilingSettings):
    """`controllers` are the controllers that run."""

    controllers: Annotated[
        Items,
        Field(json_schema_extra={"items": {"enum": list(_NAMES)}}),
        Flag(f"Comma list of {', '.join(_NAMES)}", RECONCILING),
    ] = _USUAL

    @field_validator("controllers")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError(f"want a list of {', '.join(_NAMES)}")
        for name in value:
            if name not in CONTROLLERS:
                raise ValueError(f"there is no controller {name!r}: want {', '.join(_NAMES)}")
        return tuple(dict.fromkeys(value))
