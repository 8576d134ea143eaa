"""The namespace of a tenant: made once, recognized by our label, and never taken over where it lacks it."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import ApiError, Terminal, Transient
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES
from app.kube.retry import get_or_none, if_there
from app.kube.secrets import MANAGED_BY, MANAGER
from app.placement.model import TENANT_LABEL
from app.workloads.model import tenant_namespace

FIELD_MANAGER = "berth-tenants"
"""Who owns, by server-side apply, what the controller keeps of tenants: objects, labels of nodes, statuses."""
POD_SECURITY = "pod-security.kubernetes.io/enforce"
"""A second wall behind the checks of templates. Given when the namespace is made and never again, so that an admin
can loosen or tighten it for one tenant."""


class Foreign(Terminal):
    """An object of a name that Berth uses is not ours; `reason` is for a condition."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class NotReady(Transient):
    """An object is ours and cannot be used yet; `reason` is for a condition."""

    def __init__(self, message: str, *, reason: str, delay: float | None = None) -> None:
        super().__init__(message, delay=delay)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Present:
    """A namespace of a tenant's name: `ours` where Berth made it for the tenant, or was handed it."""

    name: str
    uid: str
    ours: bool
    ending: bool


async def read_namespace(client: KubeClient, tenant: str) -> Present | None:
    name = tenant_namespace(tenant)
    found = await get_or_none(client, NAMESPACES, name)
    if found is None:
        return None
    metadata = found["metadata"]
    ours = (metadata.get("labels") or {}).get(TENANT_LABEL) == tenant
    return Present(name, metadata["uid"], ours, bool(metadata.get("deletionTimestamp")))


async def check_namespace(client: KubeClient, tenant: str) -> None:
    """Raise Foreign where Berth does not manage the tenant's namespace, NotReady where it is being deleted."""
    present = await read_namespace(client, tenant)
    if present is None:
        return
    if not present.ours:
        message = f"namespace {present.name} exists and is not ours; it is not taken over"
        raise Foreign(message, reason="ForeignNamespace")
    if present.ending:
        message = f"namespace {present.name} is still being deleted; try again when it is gone"
        raise NotReady(message, reason="NamespaceEnding")


async def ensure_namespace(client: KubeClient, tenant: str) -> bool:
    """Make the namespace where there is none (True), or find it in order (False).

    Raises Foreign, NotReady where it is being deleted, or ApiError where the API server does not let us.
    """
    name = tenant_namespace(tenant)
    present = await read_namespace(client, tenant)
    if present is None:
        labels = {TENANT_LABEL: tenant, MANAGED_BY: MANAGER, POD_SECURITY: "baseline"}
        try:
            await client.create(NAMESPACES, NAMESPACES.body({"name": name, "labels": labels}))
        except ApiError as error:
            if not error.conflict:
                raise
            present = await read_namespace(client, tenant)
        if present is None:
            return True
    if not present.ours:
        raise Foreign(
            f"namespace {name} is not ours: it lacks the label {TENANT_LABEL}={tenant}; remove it, or label it to hand "
            "it over",
            reason="ForeignNamespace",
        )
    if present.ending:
        raise NotReady(f"namespace {name} is being deleted", reason="NamespaceEnding", delay=1.0)
    return False


async def delete_namespace(client: KubeClient, tenant: str) -> bool | None:
    """Delete the namespace; False where it is not ours and stays, None where there is none."""
    present = await read_namespace(client, tenant)
    if present is None:
        return None
    if not present.ours:
        return False
    await if_there(client.delete(NAMESPACES, present.name, uid=present.uid))
    return True
