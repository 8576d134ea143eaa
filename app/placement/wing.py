"""The descriptor of the wing, and the arguments of every role that places Pods."""

from __future__ import annotations

from app.wiring import Argument, Wing

ARGUMENTS = (
    Argument("host_label", "placement.hostLabel"),
    Argument("tenant_node_label", "placement.tenantNodeLabel"),
    Argument("admin_names", "placement.adminNames"),
    Argument("tenant_allow", "placement.tenantAllow", always=True),
)

WING = Wing(
    "placement",
    webhooks="app.placement.permissions:WEBHOOKS",
    asks="app.placement.permissions:ASKS",
    parts="app.placement.webhook:review",
    permissions="app.placement.permissions:PERMISSIONS",
    settings={
        "webhook": "app.placement.settings:ConfinementSettings",
        "controller": "app.placement.settings:PlacementSettings",
    },
    why="app.placement.why:JUDGES",
)
