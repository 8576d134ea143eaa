"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import SYSTEM_NAMESPACE, Controller, Wing

WING = Wing(
    "workloads",
    clusters={"infra": "Infra cluster", "tenant": "Tenant cluster"},
    scopes={"system": SYSTEM_NAMESPACE, "tenants": ""},
    reviewed={"objects": "validate", "tenants": "validate"},
    kinds={"infra": "app.workloads.permissions:INFRA", "tenant": "app.workloads.permissions:TENANT"},
    reviews="app.workloads.permissions:REVIEWS",
    webhooks="app.workloads.permissions:WEBHOOKS",
    controllers=(
        Controller(
            "workloads",
            build="app.workloads.controller.controller:build",
        ),
    ),
    parts="app.workloads.webhook:review",
    permissions="app.workloads.permissions:PERMISSIONS",
    checks=("app.workloads.checks:RULES_CHECK", "app.workloads.checks:COMPANIONS_CHECK"),
    status=("app.workloads.sections:SECTION",),
    why="app.workloads.why.rules:JUDGES",
    views=("app.workloads.views.rules:VIEW", "app.workloads.views.trial:VIEW"),
)
