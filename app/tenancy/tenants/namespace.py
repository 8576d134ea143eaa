"""The namespace of a tenant: made once, recognized by our label, and never taken over where it lacks it."""

from __future__ import annotations

from collections.abc import Callable

from app.errors import ApiError, Terminal, Transient
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, PODS, Resource
from app.kube.retry import every_item, get_or_none, if_there
from app.kube.secrets import MANAGED_BY, MANAGER
from app.placement.model import TENANT_LABEL
from app.wire import JSON
from app.workloads.model import COMPANION, SYSTEM_NAMESPACE, WORKLOAD, WORKLOADS, tenant_namespace

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


def is_ours(namespace: JSON, tenant: str) -> bool:
    return (namespace["metadata"].get("labels") or {}).get(TENANT_LABEL) == tenant


async def read_namespace(client: KubeClient, tenant: str) -> JSON | None:
    return await get_or_none(client, NAMESPACES, tenant_namespace(tenant))


async def check_namespace(client: KubeClient, tenant: str) -> None:
    """Raise Foreign where Berth does not manage the tenant's namespace, NotReady where it is being deleted."""
    present, name = await read_namespace(client, tenant), tenant_namespace(tenant)
    if present is None:
        return
    if not is_ours(present, tenant):
        raise Foreign(f"namespace {name} exists and is not ours; it is not taken over", reason="ForeignNamespace")
    if present["metadata"].get("deletionTimestamp"):
        message = f"namespace {name} is still being deleted; try again when it is gone"
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
    if not is_ours(present, tenant):
        raise Foreign(
            f"namespace {name} is not ours: it lacks the label {TENANT_LABEL}={tenant}; remove it, or label it to hand "
            "it over",
            reason="ForeignNamespace",
        )
    if present["metadata"].get("deletionTimestamp"):
        raise NotReady(f"namespace {name} is being deleted", reason="NamespaceEnding", delay=1.0)
    return False


async def delete_namespace(client: KubeClient, tenant: str) -> bool | None:
    """Delete the namespace; False where it is not ours and stays, None where there is none."""
    present = await read_namespace(client, tenant)
    if present is None:
        return None
    if not is_ours(present, tenant):
        return False
    metadata = present["metadata"]
    await if_there(client.delete(NAMESPACES, metadata["name"], uid=metadata["uid"]))
    return True


async def contents_of(client: KubeClient, tenant: str) -> str:
    """What the infra cluster holds of the tenant at this moment, as text, for the question before a removal.

    Companions are those of admin rules in the system namespace too; other Pods are those that are no companions.
    """
    namespace = tenant_namespace(tenant)

    def of_tenant(pod: JSON) -> bool:
        return str((pod["metadata"].get("annotations") or {}).get(WORKLOAD)).startswith(f"{namespace}/")

    async def count(
        resource: Resource,
        where: str = namespace,
        selector: str = "",
        wanted: Callable[[JSON], bool] = lambda _: True,
    ) -> int:
        items = every_item(
            lambda token: client.list_page(resource, namespace=where, label_selector=selector, continue_token=token)
        )
        try:
            return sum([wanted(item) async for item in items])
        except ApiError as error:
            if error.not_found:
                return 0  # the cluster does not know the kind
            raise

    companions, pods = await count(PODS, selector=COMPANION), await count(PODS)
    of_admin = await count(PODS, SYSTEM_NAMESPACE, COMPANION, of_tenant)
    counts = {
        "workload": await count(WORKLOADS),
        "companion": companions + of_admin,
        "other Pod": pods - companions,
    }
    return ", ".join(f"{number} {noun}{'' if number == 1 else 's'}" for noun, number in counts.items())
