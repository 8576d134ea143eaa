"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Argument, Controller, Wing

_RUNS = "controller.args.controllers=claim-templates"
_DEFINITIONS = "controller.args.claimTemplates"
"""One value for both roles: they read the same ConfigMap."""

WING = Wing(
    "claims",
    reviews="app.claims.permissions:REVIEWS",
    webhooks="app.claims.permissions:WEBHOOKS",
    asks="app.claims.permissions:ASKS",
    parts="app.claims.build:review",
    controllers=(
        Controller(
            "claim-templates",
            build="app.claims.build:templates",
            reconcilers=("claim-templates",),
            watches=("ClaimTemplatePod", "NetworkAttachmentDefinition", "DeviceClass", "ResourceClaimTemplate"),
            needs="webhook",
            usual=False,
        ),
    ),
    permissions="app.claims.permissions:PERMISSIONS",
    settings={
        "webhook": "app.claims.settings:AdmissionSettings",
        "controller": "app.claims.settings:TemplateSettings",
    },
    metrics={"app.claims.templates.metrics": ("controller",)},
    arguments={
        "webhook": (
            Argument("claims"),
            Argument("claim_templates", source=_DEFINITIONS, when="webhook.args.claims"),
        ),
        "controller": (Argument("claim_templates", source=_DEFINITIONS, when=_RUNS),),
    },
)
