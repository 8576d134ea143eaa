"""What the certificates role needs at an API server, and the job before an uninstallation."""

from __future__ import annotations

from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.wiring import READ, Permission, Permissions

WEBHOOK_SECRET = "berth-webhook-tls"  # noqa: S105 - the name of an object
"""In a release `berth`; in another it begins with the name of the release's objects."""
UI_SECRET = "berth-ui-tls"  # noqa: S105 - the name of an object
"""The same for the page."""
_REGISTERED = tuple(resource.plural for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS))

PERMISSIONS: Permissions = {
    "certificates": (
        # A creation cannot be confined to a name: RBAC is asked before the name is known.
        Permission("release", "", ("secrets",), ("create",)),
        Permission("release", "", ("secrets",), (*READ, "update"), ("{webhook_secret}",), when="webhook_service"),
        Permission("release", "", ("secrets",), (*READ, "update"), ("{ui_secret}",), when="ui_service"),
        Permission(
            "cluster", MUTATING_WEBHOOKS.group, _REGISTERED, (*READ, "patch"), ("{configuration}",), "webhook_service"
        ),
        # That a configuration was deleted: it cannot say so itself.
        Permission("cluster", "", ("events",), ("create", "patch"), when="webhook_service"),
    ),
}


def unregistering(*, configurations: tuple[str, ...] = ("berth",)) -> tuple[Permission, ...]:
    """The job before an uninstallation: it reads the release's webhook configurations and deletes them."""
    return (Permission("cluster", MUTATING_WEBHOOKS.group, _REGISTERED, ("get", "delete"), configurations),)
