"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Controller, Wing

WING = Wing(
    "claims",
    controllers=(
        Controller(
            "network-services",
            build="app.claims.build:services",
            reconcilers=("network-services",),
            watches=(
                "NetworkService",
                "NetworkPod",
                "Node",
                "ResourceClaim",
                "ResourceSlice",
                "NetworkAttachmentDefinition",
                "EndpointSlice",
            ),
            needs="webhook",
            usual=False,
        ),
    ),
    permissions="app.claims.permissions:PERMISSIONS",
    metrics={"app.claims.services.metrics": ("controller",)},
)
