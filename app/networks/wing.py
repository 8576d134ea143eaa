"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Argument, Controller, Wing

_KEEPS_POLICIES = "controller.args.controllers=policies"

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
    settings={
        "webhook": "app.networks.settings:NetworksSettings",
        "controller": "app.policies.settings:ControllerSettings",
    },
    controllers=(
        Controller(
            "policies",
            build="app.policies.controller:build",
            needs="webhook",
            usual=False,
            next=("kubectl get mutatingadmissionpolicies,validatingadmissionpolicies -l berth.dev/policies-of",),
        ),
    ),
    arguments={
        "controller": (
            Argument("policies_config", source="berth.policiesConfig", when=_KEEPS_POLICIES),
            Argument("policies_name", source="berth.fullname", when=_KEEPS_POLICIES),
            Argument("policies_owner", source="berth.policiesOwner", when=_KEEPS_POLICIES),
        )
    },
    metrics={"app.policies.controller": ("controller",)},
    checks=(
        "app.networks.checks.networks:SWITCHES_CHECK",
        "app.networks.checks.networks:ATTACHMENTS_CHECK",
        "app.networks.checks.pods:CHECK",
        "app.networks.checks.policies:CHECK",
    ),
    status=("app.networks.sections:SECTION",),
    why="app.networks.why.pods:JUDGES",
    views=("app.networks.views:VIEW",),
)
