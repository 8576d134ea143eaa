"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Argument, Wing

_REVIEWED = "webhook.args.claims"

WING = Wing(
    "claims",
    reviews="app.claims.permissions:REVIEWS",
    webhooks="app.claims.permissions:WEBHOOKS",
    parts="app.claims.build:review",
    permissions="app.claims.permissions:PERMISSIONS",
    settings={"webhook": "app.claims.settings:AdmissionSettings"},
    arguments={
        "webhook": (
            Argument("claims"),
            Argument("claims_deny_drivers", when=_REVIEWED),
        ),
    },
)
