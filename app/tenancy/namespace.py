"""The namespace of a tenant, and the objects in it: rights of Berth's roles, quotas, a ServiceAccount.

The namespace is made once, recognized by our label, and never taken over where it lacks it. Each object is recognized
by its name: the fields below are restored when an admin changes them, other fields stay. Because of the RoleBindings
no role needs rights in all namespaces; a RoleBinding without Berth's label is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from app.errors import ApiError, Terminal, Transient
from app.kube import names, quantity, retry
from app.kube.client import KubeClient
from app.kube.resources import NAMESPACES, RESOURCE_QUOTAS, ROLE_BINDINGS, SERVICE_ACCOUNTS, Resource
from app.kube.retry import get_or_none, if_there
from app.kube.secrets import MANAGED_BY, MANAGER
from app.placement.model import TENANT_LABEL
from app.tenancy.model import tenants_role
from app.wire import JSON
from app.workloads.controller.places import COMPANIONS
from app.workloads.model import tenant_namespace

FIELD_MANAGER = "berth-tenants"
"""Who owns, by server-side apply, what the controller keeps of tenants: objects, labels of nodes, statuses."""
POD_SECURITY = "pod-security.kubernetes.io/enforce"
"""A second wall behind the checks of templates. Given when the namespace is made and never again, so that an admin
can loosen or tighten it for one tenant."""
OWN_ROLE = tenants_role("controller")
"""What the controller itself may do in a tenant's namespace: it comes before what is kept there by it."""
ISOLATION = "berth-isolation"
"""The ResourceQuota that lets no Pod have an affinity, or anti-affinity, to Pods of other namespaces."""
OBJECTS = "berth-objects"
"""The ResourceQuota that bounds how many objects there are."""
_RETRY = 1.0
_RECOUNT = 10.0
"""Seconds before a quota is counted again: kube-controller-manager looks for new kinds every 30 seconds."""
_FORM = "want CLUSTERROLE=NAMESPACE/SERVICEACCOUNT"


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
    obj = await get_or_none(client, NAMESPACES, name)
    if obj is None:
        return None
    metadata = obj["metadata"]
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


@dataclass(frozen=True, slots=True)
class NamespaceObject:
    """One object of a tenant's namespace, with the fields that are Berth's."""

    resource: Resource
    name: str
    fields: JSON

    def body(self, namespace: str) -> JSON:
        metadata: JSON = {"name": self.name, "namespace": namespace}
        if self.resource != SERVICE_ACCOUNTS:
            metadata["labels"] = {MANAGED_BY: MANAGER}
        return self.resource.body(metadata, **deepcopy(self.fields))

    def is_met_by(self, present: JSON) -> bool:
        """Whether the fields are as they should be, and nothing is added to them."""
        return all(present.get(name) == value for name, value in self.fields.items())

    def holds_in(self, present: JSON) -> bool:
        """Whether it bounds what it should: more bounds do no harm."""
        return _covers(present, self.fields)


def bounds_of(quota: Mapping[str, int]) -> tuple[NamespaceObject, ...]:
    """The bounds that need no webhook: two ResourceQuotas, and a ServiceAccount without a token."""
    selector = {"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]}
    counts = {
        name: quantity.canonical(number) for name, number in sorted(quota.items()) if not name.startswith(COMPANIONS)
    }
    return (
        NamespaceObject(RESOURCE_QUOTAS, ISOLATION, {"spec": {"hard": {"pods": "0"}, "scopeSelector": selector}}),
        NamespaceObject(RESOURCE_QUOTAS, OBJECTS, {"spec": {"hard": counts}}),
        NamespaceObject(SERVICE_ACCOUNTS, "default", {"automountServiceAccountToken": False}),
    )


def parse_grant(text: str) -> NamespaceObject:
    """The RoleBinding of `CLUSTERROLE=NAMESPACE/SERVICEACCOUNT`, called like its role; ValueError for another text."""
    role, equals, account = text.partition("=")
    namespace, slash, name = account.partition("/")
    if not (equals and slash):
        raise ValueError(f"{_FORM}, got {text!r}")
    try:
        names.check_dns_subdomain(role)
        names.check_dns_label(namespace)
        names.check_dns_subdomain(name)
    except ValueError as error:
        raise ValueError(f"{_FORM}: {error}") from error
    return NamespaceObject(
        ROLE_BINDINGS,
        role,
        {
            "roleRef": {"apiGroup": ROLE_BINDINGS.group, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    )


async def ensure_grants(client: KubeClient, namespace: str, grants: Sequence[NamespaceObject]) -> bool:
    """Have all of these RoleBindings in the namespace; True if one was written.

    Raises Foreign for one that is not ours or binds another role, after the others are done, or ApiError.
    """
    problems = [await _ensure_grant(client, namespace, grant) for grant in grants]
    if foreign := [problem for problem in problems if problem]:
        raise Foreign("; ".join(foreign), reason="ForeignRoleBinding")
    return "" in problems


async def _ensure_grant(client: KubeClient, namespace: str, grant: NamespaceObject) -> str | None:
    """Why the grant cannot be had; "" where it is written now, None where it was there."""
    name, body = grant.name, grant.body(namespace)
    present = await retry.get_or_none(client, ROLE_BINDINGS, name, namespace=namespace)
    if present is None:
        await client.create(ROLE_BINDINGS, body, namespace=namespace)
        return ""
    if (present["metadata"].get("labels") or {}).get(MANAGED_BY) != MANAGER:
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


async def ensure_bounds(client: KubeClient, namespace: str, bounds: Iterable[NamespaceObject]) -> None:
    """Have all of them in the namespace.

    Raises NotReady where a quota does not hold yet because its objects are not counted, Foreign where it never will,
    for it has scopes, or ApiError.
    """
    pending = [status for bound in bounds if (status := await _ensure_bound(client, namespace, bound)) is not None]
    if pending:
        delay = max(bound.delay or 0.0 for bound in pending)
        raise NotReady("; ".join(map(str, pending)), reason="QuotaPending", delay=delay)


async def _ensure_bound(client: KubeClient, namespace: str, bound: NamespaceObject) -> NotReady | None:
    """Why it does not hold yet, None where it does."""
    present = await retry.get_or_none(client, bound.resource, bound.name, namespace=namespace)
    if present is None or not bound.is_met_by(present):
        present = await _apply(client, namespace, bound)
    if bound.resource != RESOURCE_QUOTAS:
        return None
    place = f"ResourceQuota {namespace}/{bound.name}"
    if present["spec"].get("scopes"):
        raise Foreign(f"{place} has scopes, which cannot be changed: remove it", reason="ForeignResourceQuota")
    missing, delay = uncounted_in(present), _RETRY
    if not missing:
        return None
    if _status(present, "hard") == present["spec"].get("hard", {}):
        # Counted before its counter knew these kinds (definitions that are new). It counts again when bounds change.
        fewer = {name: value for name, value in bound.fields["spec"]["hard"].items() if name not in missing}
        await _apply(client, namespace, NamespaceObject(bound.resource, bound.name, {"spec": {"hard": fewer}}))
        await _apply(client, namespace, bound)
        delay = _RECOUNT
    message = f"{place} does not hold yet for {', '.join(missing)}: kube-controller-manager has not counted them"
    return NotReady(message, reason="QuotaPending", delay=delay)


def uncounted_in(quota: JSON) -> list[str]:
    """The resources of a quota for which the API server has no bound, or no count, to enforce."""
    hard, used = _status(quota, "hard"), _status(quota, "used")
    bounds: JSON = quota["spec"].get("hard") or {}
    return [name for name, value in bounds.items() if hard.get(name) != value or name not in used]


async def _apply(client: KubeClient, namespace: str, bound: NamespaceObject) -> JSON:
    body = bound.body(namespace)
    return await client.apply(bound.resource, bound.name, body, namespace=namespace, field_manager=FIELD_MANAGER)


def _covers(present: object, planned: object) -> bool:
    if isinstance(present, dict) and isinstance(planned, dict):
        return all(name in present and _covers(present[name], value) for name, value in planned.items())
    return present == planned


def _status(quota: JSON, field: str) -> JSON:
    return (quota.get("status") or {}).get(field) or {}
