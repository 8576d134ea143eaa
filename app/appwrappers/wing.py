"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Argument, Controller, Wing

_PEER = "workload-codeflare-dev-v1beta2-appwrapper"
"""How the paths of AppWrapper v1.2 end."""
_RUNS = "controller.args.controllers=appwrappers"
_CONFIG = "controller.args.appwrapperConfig"
"""One value for both roles: they read the same ConfigMap."""

WING = Wing(
    "appwrappers",
    clusters={"appwrappers": "AppWrappers"},
    reviewed={"appwrappers": "validate", "appwrapper-defaults": "mutate"},
    kinds={"appwrappers": "app.appwrappers.permissions:KINDS"},
    reviews="app.appwrappers.permissions:REVIEWS",
    webhooks="app.appwrappers.permissions:WEBHOOKS",
    controllers=(
        Controller(
            "appwrappers",
            build="app.appwrappers.controller.controller:build",
            needs="appwrappers",
            usual=False,
            next=("kubectl get appwrappers -A",),
        ),
        Controller(
            "appwrapper-workloads",
            build="app.appwrappers.kueue.controller:build",
            needs="appwrappers",
            usual=False,
            next=("kubectl get workloads.kueue.x-k8s.io -A",),
        ),
    ),
    parts="app.appwrappers.admission.review:review",
    on="appwrappers",
    paths={"mutate-" + _PEER: "mutate", "validate-" + _PEER: "validate"},
    permissions="app.appwrappers.permissions:PERMISSIONS",
    settings={
        "webhook": "app.appwrappers.settings:AdmissionSettings",
        "controller": "app.appwrappers.settings:WrappedKindsSettings",
    },
    checks=("app.appwrappers.checks:CHECK",),
    status=("app.appwrappers.sections:SECTION",),
    why="app.appwrappers.why.app_wrappers:JUDGES",
    views=("app.appwrappers.views:VIEW",),
    metrics={"app.appwrappers.metrics": ("controller",)},
    arguments={
        "webhook": (
            Argument("appwrappers"),
            Argument("appwrapper_strict", when="webhook.args.appwrappers"),
            Argument("appwrapper_config", source=_CONFIG, when="webhook.args.appwrappers"),
            Argument("appwrapper_controller", source="berth.controllerAccount", when="webhook.args.appwrappers"),
        ),
        "controller": (
            Argument("wrapped_kinds", when=_RUNS),
            Argument("appwrapper_impersonation", when=_RUNS),
            Argument("appwrapper_config", source=_CONFIG, when=_RUNS),
        ),
    },
)
