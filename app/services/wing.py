"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Controller, Wing

WING = Wing(
    "services",
    controllers=(
        Controller(
            "network-services",
            build="app.services.controller:build",
            needs="webhook",
            usual=False,
            next=("kubectl get endpointslices -A",),
        ),
    ),
    permissions="app.services.permissions:PERMISSIONS",
    status=("app.services.sections:SECTION",),
    why="app.services.why.services:JUDGES",
    metrics={"app.services.controller": ("controller",)},
)
