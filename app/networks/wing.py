"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Wing

WING = Wing(
    "networks",
    clusters={"webhook": ""},
    reviewed={"pods": "mutate", "attachments": "validate"},
    kinds={"webhook": "app.networks.permissions:ATTACHMENTS"},
    reviews="app.networks.permissions:REVIEWS",
    webhooks="app.networks.permissions:WEBHOOKS",
    asks="app.networks.permissions:ASKS",
    labels="app.networks.checks.networks:injected_labels",
    parts="app.networks.webhook:review",
    permissions="app.networks.permissions:PERMISSIONS",
    settings={"webhook": "app.networks.settings:NetworksSettings"},
    checks=(
        "app.networks.checks.networks:SWITCHES_CHECK",
        "app.networks.checks.networks:ATTACHMENTS_CHECK",
        "app.networks.checks.pods:CHECK",
    ),
    status=("app.networks.sections:SECTION",),
    why="app.networks.why.pods:JUDGES",
    views=("app.networks.views:VIEW",),
)
