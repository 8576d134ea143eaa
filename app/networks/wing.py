"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Wing

WING = Wing(
    "networks",
    kinds={"webhook": "app.networks.permissions:ATTACHMENTS"},
    reviews="app.networks.permissions:REVIEWS",
    parts="app.networks.build:review",
    permissions="app.networks.permissions:PERMISSIONS",
    settings={"webhook": "app.networks.settings:NetworksSettings"},
    checks=(
        "app.doctor.switches:ControlSwitches",
        "app.doctor.attachments:BrokenAttachments",
        "app.doctor.pods:Pods",
    ),
)
