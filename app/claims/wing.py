"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Argument, Chart, Controller, Role, Wing

_RUNS, _SERVES = "controller.args.controllers=claims", "controller.args.controllers=network-services"
_KEEPS_TEMPLATES = "controller.args.controllers=claim-templates"
_DEFINITIONS = "controller.args.claimTemplates"
_KEYS, _HOME = "webhook.args.networkResourceNameKeys", "webhook.args.defaultNetworkNamespace"
"""One value for all roles: they read the same attachments."""


def _networks(when: str) -> tuple[Argument, ...]:
    """How attachments are read, and which of their addresses are published."""
    return (
        Argument("network_resource_name_keys", source=_KEYS, when=when),
        Argument("default_network_namespace", source=_HOME, when=when),
        Argument("unconfined_networks", source="claims.unconfinedNetworks", when=when),
        Argument("excluded_ranges", source="claims.excludedRanges", when=when),
    )


def _publishing(when: str = "") -> tuple[Argument, ...]:
    """What the roles that publish have in common."""
    return (
        Argument("claims_drivers", source="claims.drivers", when=when),
        Argument("claims_conflict", source="claims.conflict", when=when),
        Argument("claims_self_publishing", source="claims.selfPublishing", when=when, always=True),
        Argument("claims_repair_after", source="claims.repairAfter", when=when),
        *_networks(when),
    )


NODE = Role(
    name="claims-node",
    settings="app.claims.settings:NodeSettings",
    build="app.claims.publishing.controller:build_for_node",
    summary="Publish network data in the ResourceClaims of the Pods of this node.",
    examples=("berth claims-node --node-name worker-1 --kubeconfig worker-1.kubeconfig",),
    notes="It does for one node what controller claims does for all, with a permission that holds for this node alone.",
    needs="webhook",
    chart=Chart(
        kind="DaemonSet",
        enabled="claims-node.enabled",
        arguments=(*_publishing(), Argument("resync_seconds")),
    ),
    when_down="the ResourceClaims of Pods of its node get no network data, and keep what they have",
    when_refused={"": "ResourceClaims of the node get no network data"},
)

WING = Wing(
    "claims",
    reviewed={
        "claim-pods": "validate",
        "claim-definitions": "validate",
        "device-classes": "validate",
        "pod-templates": "mutate",
        "claim-status": "validate",
    },
    reviews="app.claims.permissions:REVIEWS",
    webhooks="app.claims.permissions:WEBHOOKS",
    asks="app.claims.permissions:ASKS",
    parts="app.claims.admission.review:review",
    on="claims",
    controllers=(
        Controller(
            "claims",
            build="app.claims.publishing.controller:build",
            needs="webhook",
            usual=False,
            next=("kubectl get resourceclaims -A",),
        ),
        Controller(
            "claim-templates",
            build="app.claims.claim_templates:build",
            needs="webhook",
            usual=False,
            next=("kubectl get resourceclaimtemplates -A",),
        ),
    ),
    permissions="app.claims.permissions:PERMISSIONS",
    checks=("app.claims.checks.claims:CHECK",),
    status=("app.claims.sections:SECTION",),
    why="app.claims.why.claims:JUDGES",
    views=("app.claims.views:VIEW",),
    settings={
        "webhook": "app.claims.settings:AdmissionSettings",
        "controller": "app.claims.settings:ControllerSettings",
    },
    metrics={
        "app.claims.publishing.reporting": ("controller", "claims-node"),
        "app.claims.claim_templates": ("controller",),
    },
    arguments={
        "webhook": (
            Argument("claims"),
            Argument("claims_deny_drivers", when="webhook.args.claims"),
            Argument("claim_templates", source=_DEFINITIONS, when="webhook.args.claims"),
        ),
        "controller": (
            *_publishing(_RUNS),
            *_networks(f"!{_RUNS},{_SERVES}"),
            Argument("claim_templates", source=_DEFINITIONS, when=_KEEPS_TEMPLATES),
        ),
    },
    roles=(NODE,),
)
