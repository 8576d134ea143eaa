"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Argument, Wing

WING = Wing(
    "appwrappers",
    kinds={"appwrappers": "app.appwrappers.permissions:KINDS"},
    reviews="app.appwrappers.permissions:REVIEWS",
    webhooks="app.appwrappers.permissions:WEBHOOKS",
    permissions="app.appwrappers.permissions:PERMISSIONS",
    settings={
        "webhook": "app.appwrappers.settings:AdmissionSettings",
        "controller": "app.appwrappers.settings:WrappedKindsSettings",
    },
    arguments={
        "webhook": (Argument("appwrappers"), Argument("appwrapper_strict")),
        "controller": (Argument("wrapped_kinds", when="controller.args.controllers=appwrappers"),),
    },
)
