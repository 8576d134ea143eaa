"""The namespace of a tenant: made once, recognized by our label, and never taken over where it lacks it.

Used by the controller and by `berth tenant` alike.
"""

from __future__ import annotations

from app.certs.secrets import MANAGED_BY, MANAGER
from app.errors import ApiError, Terminal, Transient
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.kube.retry import get_or_none
from app.placement.model import TENANT_LABEL
from app.wire import JSON
from app.workloads.model import tenant_namespace

POD_SECURITY = "pod-security.kubernetes.io/enforce"
POD_SECURITY_LEVEL = "baseline"
"""A second wall behind the checks of templates. Given when the namespace is made and never again, so that an admin
can loosen or tighten it for one tenant."""


class ForeignNamespace(Terminal):
    """A namespace of the tenant's name that is not ours: it lacks the label, or has another tenant's."""


class NamespaceEnding(Transient):
    """The namespace is being deleted, and can be made anew when it is gone."""


def is_ours(namespace: JSON, tenant: str) -> bool:
    """Whether this namespace carries our label with this tenant's name."""
    return (namespace["metadata"].get("labels") or {}).get(TENANT_LABEL) == tenant


async def read_namespace(client: KubeClient, tenant: str) -> JSON | None:
    return await get_or_none(client, NAMESPACES, tenant_namespace(tenant))


async def ensure_namespace(client: KubeClient, tenant: str, *, pod_security: str = POD_SECURITY_LEVEL) -> bool:
    """Make the namespace where there is none (True), or find it in order (False).

    Raises ForeignNamespace, NamespaceEnding, or ApiError where the API server does not let us.
    """
    name = tenant_namespace(tenant)
    present = await read_namespace(client, tenant)
    if present is None:
        labels = {TENANT_LABEL: tenant, MANAGED_BY: MANAGER}
        if pod_security:
            labels[POD_SECURITY] = pod_security
        try:
            await client.create(NAMESPACES, NAMESPACES.body({"name": name, "labels": labels}))
        except ApiError as error:
            if not error.conflict:
                raise
            present = await read_namespace(client, tenant)
        if present is None:
            return True
    if not is_ours(present, tenant):
        raise ForeignNamespace(
            f"namespace {name} is not ours: it lacks the label {TENANT_LABEL}={tenant}; remove it, or label it to hand "
            "it over"
        )
    if present["metadata"].get("deletionTimestamp"):
        raise NamespaceEnding(f"namespace {name} is being deleted", delay=1.0)
    return False
