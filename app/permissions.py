"""What each role may do at an API server, and nothing more: the least that its wings need, put together.

The Roles of the chart are made of it (`charts/berth/files/roles.json`); `berth doctor` asks the API server for it.
No role has `*`. Secrets are read by those that keep them, in its own release or in tenants' namespaces, and by the
controller that shows others the certificate in one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, cast

from app.registry import CONTROLLER, CONTROLLER_LEASE, SCOPES, WINGS, check_names, settings_of
from app.wiring import READ, Permission, Permissions, Scope, is_on, resolve

_OF_PAGE = (
    Permission(
        "cluster",
        "",
        ("pods", "nodes", "namespaces", "resourcequotas", "serviceaccounts", "endpoints"),
        READ,
    ),
    Permission("cluster", "apps", ("deployments", "daemonsets", "replicasets", "statefulsets"), READ),
    Permission("cluster", "batch", ("jobs", "cronjobs"), READ),
    Permission("cluster", "scheduling.k8s.io", ("priorityclasses", "podgroups", "workloads"), READ),
    Permission(
        "cluster",
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        READ,
    ),
    Permission("cluster", "apiextensions.k8s.io", ("customresourcedefinitions",), READ),
    Permission(
        "cluster",
        "rbac.authorization.k8s.io",
        ("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
        READ,
    ),
    # Too many and too busy to be watched.
    Permission("cluster", "", ("events",), ("get", "list")),
    Permission("cluster", "coordination.k8s.io", ("leases",), ("get", "list")),
    Permission("cluster", "authentication.k8s.io", ("tokenreviews",), ("create",)),
    Permission("cluster", "authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    # The metrics of webhook Pods, for callers who may read them so as well.
    Permission("release", "", ("pods/proxy",), ("get",)),
)
"""Of what views, checks and judges of every cluster read. What they read of a wing, its permissions say."""
_EVENTS = Permission("cluster", "", ("events",), ("create", "patch"))
_LEASES = "coordination.k8s.io"
_SHARED: dict[str, tuple[Permission, ...]] = {
    "webhook": (replace(_EVENTS, when="events"),),
    "controller": (
        Permission("release", _LEASES, ("leases",), ("create",)),
        Permission("release", _LEASES, ("leases",), ("get", "update"), (CONTROLLER_LEASE,)),
        _EVENTS,
    ),
    "ui": _OF_PAGE,
}
"""What a role needs for itself, whichever wings work in it."""


@cache
def declared(role: str) -> tuple[Permission, ...]:
    """All that the role may need, by the wings in their order, as it is declared."""
    declarations: list[Permission] = []
    for wing in WINGS:
        permissions = cast("Permissions", resolve(wing.permissions))
        declarations += permissions.get(role, ())
        for controller in wing.controllers if role == CONTROLLER.name else ():
            chosen = f"controllers={controller.name}"
            for permission in permissions.get(controller.name, ()):
                declarations.append(
                    replace(permission, when=f"{chosen},{permission.when}" if permission.when else chosen)
                )
    declarations += _SHARED.get(role, ())
    check_names((permission.scope for permission in declarations), SCOPES, f"permissions of {role}")
    return tuple(declarations)


def permissions_of(role: str, **settings: Any) -> tuple[Permission, ...]:
    """What the role needs with these settings, by field; those that are not given have their defaults."""
    values = defaults(role) | settings
    return tuple(
        replace(permission, group=group, resources=resources, names=expanded(permission.names, values), when="")
        for permission in declared(role)
        if all(is_on(when, values) for when in permission.when.split(",") if when)
        for group, resources in _resources(permission, values).items()
    )


def _resources(permission: Permission, settings: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The resources by group; those that stand for a setting are PLURAL.GROUP there."""
    groups: dict[str, tuple[str, ...]] = {}
    for resource in permission.resources:
        if not resource.startswith("{"):
            groups[permission.group] = (*groups.get(permission.group, ()), resource)
            continue
        for item in settings[resource.strip("{}")]:
            plural, _, group = item.partition(".")
            groups[group] = (*groups.get(group, ()), plural)
    return groups


def expanded(names: tuple[str, ...], settings: dict[str, Any]) -> tuple[str, ...]:
    """The names, those that stand for a setting with the values of that."""
    expansions: list[str] = []
    for name in names:
        value = settings[name.strip("{}")] if name.startswith("{") else name
        expansions += [value] if isinstance(value, str) else value
    return tuple(expansions)


def places(*, release: str, settings: dict[str, Any]) -> dict[Scope, str]:
    """The namespace of each scope that has one of its own, "" for all of the cluster."""
    values = defaults(CONTROLLER.name) | settings
    declared_places = {scope: expanded((place,), values)[0] for scope, place in SCOPES.items() if place}
    return {"cluster": "", "release": release, **declared_places}


@cache
def defaults(role: str) -> dict[str, Any]:
    return {name: field.default for name, field in settings_of(role).model_fields.items()}
