"""Binds exactly the permissions of `app.permissions` to one user, as the chart does to a ServiceAccount."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from app.devtools.clusters.accounts import bind, permit, rules_of
from app.kube.client import KubeClient
from app.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, ROLES, SERVICE_ACCOUNTS
from app.kube.retry import get_or_none
from app.permissions import places
from app.tenancy.model import tenants_role
from app.wiring import Permission
from app.workloads.model import SYSTEM_NAMESPACE

__all__ = [
    "CLUSTER_ROLES",
    "CLUSTER_ROLE_BINDINGS",
    "GROUP",
    "ROLES",
    "acting_as",
    "allow",
    "holding",
    "token_kubeconfig",
]
GROUP = ROLES.group


async def allow(client: KubeClient, user: str, permissions: Sequence[Permission], *, role: str, release: str) -> None:
    """Roles `role` with these permissions for the user; what is of tenants' namespaces is bound in `universe` alone."""
    account = user.split(":")
    subject: dict[str, Any] = {"apiGroup": GROUP, "kind": "User", "name": user}
    if user.startswith("system:serviceaccount:"):
        subject = {"kind": "ServiceAccount", "namespace": account[2], "name": account[3]}
    scopes = places(release=release, settings={})
    tenants = rules_of(permissions, "tenants")
    used = {scope for scope in scopes if rules_of(permissions, scope)}
    for namespace in {scopes[scope] for scope in used if scopes[scope]} | ({SYSTEM_NAMESPACE} if tenants else set()):
        if await get_or_none(client, NAMESPACES, namespace) is None:
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await permit(client, subject, permissions, name=role, places=scopes)
    if tenants:
        await bind(client, subject, CLUSTER_ROLES, tenants_role(role), namespace=SYSTEM_NAMESPACE)


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
