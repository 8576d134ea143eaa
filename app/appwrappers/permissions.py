"""What AppWrappers need at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from app.appwrappers.model import APP_WRAPPERS
from app.wiring import READ, Permission, Permissions, ReviewRule, Webhook

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
_GROUP, _PLURAL = APP_WRAPPERS.group, APP_WRAPPERS.plural
PERMISSIONS: Permissions = {
    "appwrappers": (
        Permission("cluster", _GROUP, (_PLURAL,), (*READ, "patch")),
        Permission("cluster", _GROUP, (f"{_PLURAL}/status",), ("patch",)),
        # An owner reference that blocks the owner's deletion asks for this right on the owner.
        Permission("cluster", _GROUP, (f"{_PLURAL}/finalizers",), ("update",)),
        Permission("cluster", "", ("{wrapped_kinds}",), (*READ, "create", "delete")),
        # Pods of wrapped objects, of any kind of these: they are counted, and deleted where they are stuck.
        Permission("cluster", "", ("pods",), ("list", "watch", "delete")),
        Permission("cluster", "", ("nodes",), ("list", "watch")),
        Permission("release", "", ("configmaps",), READ, names=("{appwrapper_config}",)),
        Permission("cluster", "kueue.x-k8s.io", ("workloads",), ("list",)),
    ),
}
