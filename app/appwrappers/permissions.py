"""What AppWrappers need at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from dataclasses import replace

from app.appwrappers.ancestors import followed
from app.appwrappers.model import APP_WRAPPERS
from app.wiring import READ, Permission, Permissions, ReviewRule, Webhook

KINDS = (APP_WRAPPERS,)
REVIEWS = (
    ReviewRule("appwrappers", APP_WRAPPERS.group, APP_WRAPPERS.version, (APP_WRAPPERS.plural,)),
    ReviewRule("appwrapper-defaults", APP_WRAPPERS.group, APP_WRAPPERS.version, (APP_WRAPPERS.plural,), ("CREATE",)),
)
SERVED = "webhook.args.appwrappers"
WEBHOOKS = (
    Webhook("appwrapper-defaults", "appwrapper-defaults", values="appwrappers", when=SERVED, proven=True),
    Webhook(
        "appwrappers",
        "appwrappers",
        values="appwrappers",
        when=SERVED,
        proven=True,
        unproven="every AppWrapper is refused",
    ),
)
_KUEUE, _KUEUE_CONFIG = "kueue.x-k8s.io", "kueue-manager-config"
_GROUP, _PLURAL = APP_WRAPPERS.group, APP_WRAPPERS.plural
_OWNERS = tuple(Permission("cluster", group, plurals, ("get",)) for group, plurals in followed())
"""What an AppWrapper may belong to, up to an object that Kueue manages."""
_AUTHENTICATION = "authentication.k8s.io"
_EXTRA = tuple(
    f"userextras/authentication.kubernetes.io/{key}" for key in ("node-name", "node-uid", "pod-name", "pod-uid")
)
_AUTHORS = (
    # See https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/ and KEP-5284: no group
    # system:masters, and for nothing but these creations.
    *(
        Permission("cluster", group, resources, verbs, when="appwrapper_impersonation=constrained")
        for group, resources, verbs in (
            (_AUTHENTICATION, ("users", "groups", "uids", *_EXTRA), ("impersonate:user-info",)),
            (_AUTHENTICATION, ("serviceaccounts",), ("impersonate:serviceaccount",)),
            ("", ("{wrapped_kinds}",), ("impersonate-on:user-info:create", "impersonate-on:serviceaccount:create")),
        )
    ),
    *(
        Permission("cluster", group, resources, ("impersonate",), when="appwrapper_impersonation=legacy")
        for group, resources in (
            ("", ("users", "groups", "serviceaccounts")),
            (_AUTHENTICATION, ("uids", *_EXTRA)),
        )
    ),
)
"""To create components as the users who created the AppWrappers."""
PERMISSIONS: Permissions = {
    "webhook": (
        Permission("cluster", "authorization.k8s.io", ("subjectaccessreviews",), ("create",), when="appwrappers"),
        Permission("release", "", ("configmaps",), READ, names=("{appwrapper_config}",), when="appwrappers"),
        Permission(
            "cluster",
            "apiextensions.k8s.io",
            ("customresourcedefinitions",),
            READ,
            names=(f"workloads.{_KUEUE}",),
            when="appwrappers",
        ),
        Permission("cluster", _KUEUE, ("localqueues",), ("get",), when="appwrappers"),
        *(replace(permission, when="appwrappers") for permission in _OWNERS),
    ),
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
        Permission("cluster", _KUEUE, ("workloads",), ("list",)),
        *_AUTHORS,
    ),
    "appwrapper-workloads": (
        Permission("cluster", _GROUP, (_PLURAL,), ("list", "watch", "patch")),
        # As Kueue's own account has it, where admission is strict.
        Permission("cluster", _GROUP, (_PLURAL,), ("admit",)),
        Permission("cluster", _GROUP, (f"{_PLURAL}/finalizers",), ("update",)),
        Permission("cluster", _KUEUE, ("workloads",), (*READ, "create", "patch", "delete")),
        Permission("cluster", _KUEUE, ("workloads/status",), ("patch",)),
        Permission("cluster", _KUEUE, ("resourceflavors", "workloadpriorityclasses"), READ),
        Permission("cluster", "scheduling.k8s.io", ("priorityclasses",), ("get", "list")),
        *_OWNERS,
    ),
    "ui": (
        Permission("cluster", _GROUP, (_PLURAL,), READ),
        Permission("cluster", _KUEUE, ("workloads", "localqueues", "clusterqueues"), READ),
        Permission("cluster", "", ("configmaps",), READ, (_KUEUE_CONFIG,)),
    ),
}
