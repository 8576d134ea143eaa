"""What Berth's own roles may do in a tenant's namespace: a RoleBinding there for each grant.

So no role needs rights in all namespaces for what it does in those of tenants. A RoleBinding of that name without
Berth's label is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.certs.secrets import MANAGED_BY, MANAGER
from app.errors import Terminal
from app.kube.client import KubeClient
from app.kube.names import check_dns_label, check_dns_subdomain
from app.kube.resources import ROLE_BINDINGS
from app.kube.retry import get_or_none
from app.tenancy.controller.state import FIELD_MANAGER
from app.wire import JSON

OWN_ROLE = "berth-controller-tenants"
"""What the controller itself may do in a tenant's namespace: it comes before what is kept there by it."""
_FORM = "want CLUSTERROLE=NAMESPACE/SERVICEACCOUNT"


class ForeignGrant(Terminal):
    """A RoleBinding of the grant's name that is not ours, or binds another role, which cannot be changed."""


@dataclass(frozen=True, slots=True)
class NamespaceGrant:
    """A ClusterRole, and the ServiceAccount that has it in each tenant's namespace."""

    cluster_role: str
    namespace: str
    service_account: str

    @property
    def _role(self) -> JSON:
        return {"apiGroup": ROLE_BINDINGS.group, "kind": "ClusterRole", "name": self.cluster_role}

    @property
    def _subjects(self) -> list[JSON]:
        return [{"kind": "ServiceAccount", "name": self.service_account, "namespace": self.namespace}]

    def body(self, namespace: str) -> JSON:
        """The RoleBinding in the namespace of a tenant; it is called like its ClusterRole."""
        metadata = {"name": self.cluster_role, "namespace": namespace, "labels": {MANAGED_BY: MANAGER}}
        return ROLE_BINDINGS.body(metadata, roleRef=self._role, subjects=self._subjects)

    def is_met_by(self, binding: JSON) -> bool:
        return binding.get("roleRef") == self._role and binding.get("subjects") == self._subjects


def parse_grant(text: str) -> NamespaceGrant:
    """The grant of `CLUSTERROLE=NAMESPACE/SERVICEACCOUNT`; ValueError for any other text."""
    role, equals, account = text.partition("=")
    namespace, slash, name = account.partition("/")
    if not (equals and slash):
        raise ValueError(f"{_FORM}, got {text!r}")
    try:
        return NamespaceGrant(check_dns_subdomain(role), check_dns_label(namespace), check_dns_subdomain(name))
    except ValueError as error:
        raise ValueError(f"{_FORM}: {error}") from error


async def ensure_grants(client: KubeClient, namespace: str, grants: Sequence[NamespaceGrant]) -> bool:
    """Have the RoleBinding of each grant in the namespace; True if one was written.

    Raises ForeignGrant, after the others are done, or ApiError where the API server does not let us.
    """
    problems = [await _ensure(client, namespace, grant) for grant in grants]
    if foreign := [problem for problem in problems if problem]:
        raise ForeignGrant("; ".join(foreign))
    return "" in problems


async def _ensure(client: KubeClient, namespace: str, grant: NamespaceGrant) -> str | None:
    """Why the grant cannot be had; "" where it is written now, None where it was there."""
    name, body = grant.cluster_role, grant.body(namespace)
    present = await get_or_none(client, ROLE_BINDINGS, name, namespace=namespace)
    if present is None:
        await client.create(ROLE_BINDINGS, body, namespace=namespace)
        return ""
    labels = present["metadata"].get("labels") or {}
    if labels.get(MANAGED_BY) != MANAGER:
        return (
            f"RoleBinding {namespace}/{name} is not ours: it lacks the label {MANAGED_BY}={MANAGER}; remove it, or "
            "label it to hand it over"
        )
    if grant.is_met_by(present):
        return None
    if present.get("roleRef") != body["roleRef"]:  # the field is immutable
        return f"RoleBinding {namespace}/{name} binds another role than ClusterRole {name}: remove it"
    body["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
    await client.apply(ROLE_BINDINGS, name, body, namespace=namespace, field_manager=FIELD_MANAGER)
    return ""
