"""The ServiceAccounts of roles and the rights of roles and users in a cluster of the sandbox, as the chart has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.kube.client import KubeClient
from app.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from app.tenancy.model import tenants_role
from app.users import USER_ROLES
from app.wire import JSON
from app.wiring import Permission, Scope


async def permit(
    client: KubeClient, subject: JSON, permissions: Sequence[Permission], *, name: str, places: Mapping[Scope, str]
) -> None:
    """Give the subject these permissions, by objects called `name`; `places` are the namespaces of scopes.

    What holds in namespaces of tenants becomes a ClusterRole, for the controller to bind there.
    """
    for scope, namespace in places.items():
        own = name if scope in ("cluster", "release") else f"{name}-{scope}"
        role = CLUSTER_ROLES if scope == "cluster" else ROLES
        rules = rules_of(permissions, scope)
        if rules:
            await _apply(client, role, own, namespace, rules=rules)
            await bind(client, subject, role, own, namespace=namespace)
    if tenants := rules_of(permissions, "tenants"):
        await _apply(client, CLUSTER_ROLES, tenants_role(name.removeprefix("berth-")), "", rules=tenants)


async def bind(client: KubeClient, subject: JSON, role: Resource, name: str, *, namespace: str) -> None:
    """Bind a Role or ClusterRole to the subject by a binding of the same name: in a namespace, or ("") everywhere."""
    reference = {"apiGroup": role.group, "kind": role.kind, "name": name}
    binding = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
    await _apply(client, binding, name, namespace, roleRef=reference, subjects=[subject])


async def permit_users(client: KubeClient) -> None:
    """Make the roles of users for the kinds that are defined. ClusterRole `view` then lets its subjects read these."""
    definitions = (await client.list_page(CUSTOM_RESOURCE_DEFINITIONS)).items
    defined = {definition["metadata"]["name"] for definition in definitions}
    for role in USER_ROLES:
        if role.kinds <= defined:
            name, rules = f"berth-{role.name}", rules_of(role.permissions, "cluster")
            await client.apply(
                CLUSTER_ROLES, name, CLUSTER_ROLES.body({"name": name, "labels": role.labels}, rules=rules)
            )


def rules_of(permissions: Sequence[Permission], scope: Scope) -> list[JSON]:
    """The rules of a Role for what the permissions have in one scope."""
    return [
        {
            "apiGroups": [permission.group],
            "resources": list(permission.resources),
            "verbs": list(permission.verbs),
            **({"resourceNames": list(permission.names)} if permission.names else {}),
        }
        for permission in permissions
        if permission.scope == scope
    ]


async def _apply(client: KubeClient, resource: Resource, name: str, namespace: str, **fields: object) -> None:
    await client.apply(resource, name, resource.body({"name": name}, **fields), namespace=namespace or None)
