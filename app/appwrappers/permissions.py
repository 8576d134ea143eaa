"""What AppWrappers need at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from app.appwrappers.model import APP_WRAPPERS
from app.wiring import Permissions, ReviewRule, Webhook

KINDS = (APP_WRAPPERS,)
REVIEWS = (
    ReviewRule("appwrappers", APP_WRAPPERS.group, APP_WRAPPERS.version, (APP_WRAPPERS.plural,)),
    ReviewRule("appwrapper-defaults", APP_WRAPPERS.group, APP_WRAPPERS.version, (APP_WRAPPERS.plural,), ("CREATE",)),
)
SERVED = "webhook.args.appwrappers"
WEBHOOKS = (
    Webhook("appwrapper-defaults", "appwrapper-defaults", values="appwrappers", when=SERVED),
    Webhook("appwrappers", "appwrappers", values="appwrappers", when=SERVED),
)
PERMISSIONS: Permissions = {}
