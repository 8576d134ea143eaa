"""Binds exactly the permissions of `app.permissions` to one user, as the chart does to a ServiceAccount."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, ROLE_BINDINGS, SERVICE_ACCOUNTS, Resource
from app.kube.retry import get_or_none
from app.registry import SCOPES
from app.rmd.model import DAEMON_NAMESPACE
from app.tenancy.model import tenants_role
from app.wiring import Permission
from app.workloads.model import SYSTEM_NAMESPACE

GROUP, VERSION = ROLE_BINDINGS.group, ROLE_BINDINGS.version
ROLES = Resource(GROUP, VERSION, "roles", "Role")
CLUSTER_ROLES = Resource(GROUP, VERSION, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(GROUP, VERSION, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)


def rules(permissions: Sequence[Permission]) -> list[dict[str, Any]]:
    return [
        {
            "apiGroups": [permission.group],
            "resources": list(permission.resources),
            "verbs": list(permission.verbs),
            **({"resourceNames": list(permission.names)} if permission.names else {}),
        }
        for permission in permissions
    ]


async def allow(client: KubeClient, user: str, permissions: Sequence[Permission], *, role: str, release: str) -> None:
    """Roles `role` with these permissions for the user; what is of tenants' namespaces is bound in `universe` alone."""
    account = user.split(":")
    subject: dict[str, Any] = {"apiGroup": GROUP, "kind": "User", "name": user}
    if user.startswith("system:serviceaccount:"):
        subject = {"kind": "ServiceAccount", "namespace": account[2], "name": account[3]}
    scopes = {scope: rules([p for p in permissions if p.scope == scope]) for scope in SCOPES}
    tenants = scopes["tenants"]
    await _bound(client, None, CLUSTER_ROLES, role, scopes["cluster"], subject)
    await _bound(client, release, ROLES, role, scopes["release"], subject)
    if scopes["system"]:
        await _bound(client, SYSTEM_NAMESPACE, ROLES, f"{role}-system", scopes["system"], subject)
    if scopes["rmd"]:
        await _bound(client, DAEMON_NAMESPACE, ROLES, f"{role}-rmd", scopes["rmd"], subject)
    if tenants:
        await _bound(client, SYSTEM_NAMESPACE, CLUSTER_ROLES, tenants_role(role), tenants, subject)


async def token_kubeconfig(
    client: KubeClient, kubeconfig: Path, namespace: str, account: str, *, pod: str = ""
) -> Path:
    """A file beside an administrator's `kubeconfig`, by which one acts as a service account, with a token for a day.

    The token is bound to this Pod.
    """
    path = SERVICE_ACCOUNTS.path(namespace=namespace, name=account, subresource="token")
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}} if pod else {}
    spec = {"expirationSeconds": 86_400, **bound}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return holding(kubeconfig, pod or account, (await client.post(path, request))["status"]["token"])


def holding(kubeconfig: Path, name: str, token: str) -> Path:
    """A file with this name beside an administrator's, by which one acts by a token."""
    return _beside(kubeconfig, f"{name}.token", {"token": token})


def acting_as(kubeconfig: Path, user: str, *groups: str) -> Path:
    """A file beside an administrator's, by which the administrator acts as this user, of these groups."""
    return _beside(kubeconfig, "-".join((user, *groups)).replace(":", "-"), {"as": user, "as-groups": list(groups)})


def _beside(kubeconfig: Path, name: str, credentials: dict[str, Any]) -> Path:
    """The file with these credentials; those of an administrator stay where another user is acted as."""
    config = yaml.safe_load(kubeconfig.read_text())
    user = config["users"][0]["user"] if "as" in credentials else {}
    config["users"][0]["user"] = user | credentials
    path = kubeconfig.with_name(f"{name}.kubeconfig")
    path.write_text(yaml.safe_dump(config))
    return path


async def _bound(
    client: KubeClient,
    namespace: str | None,
    kind: Resource,
    name: str,
    allowed: list[dict[str, Any]],
    subject: dict[str, Any],
) -> None:
    if not allowed:
        return
    if namespace is not None and await get_or_none(client, NAMESPACES, namespace) is None:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    body = kind.body({"name": name}, rules=allowed)
    await client.create(kind, body, namespace=namespace if kind.namespaced else None)
    binding = CLUSTER_ROLE_BINDINGS if namespace is None else ROLE_BINDINGS
    reference = {"apiGroup": GROUP, "kind": kind.kind, "name": name}
    bound = binding.body({"name": name}, roleRef=reference, subjects=[subject])
    await client.create(binding, bound, namespace=namespace)
