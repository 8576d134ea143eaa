"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Wing

WING = Wing(
    "placement",
    parts="app.placement.build:review",
    permissions="app.placement.permissions:PERMISSIONS",
    settings={
        "webhook": "app.placement.settings:ConfinementSettings",
        "controller": "app.placement.settings:PlacementSettings",
    },
)
