"""The bounds of a tenant's namespace that need no webhook: two ResourceQuotas, and a ServiceAccount without a token.

Each object is recognized by its name: the fields below are restored when an admin changes them, other fields stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.certs.secrets import MANAGED_BY, MANAGER
from app.errors import Terminal, Transient
from app.kube.client import KubeClient
from app.kube.quantity import canonical
from app.kube.resources import RESOURCE_QUOTAS, SERVICE_ACCOUNTS, Resource
from app.kube.retry import get_or_none
from app.tenancy.controller.state import FIELD_MANAGER
from app.wire import JSON
from app.workloads.quota import COMPANIONS

ISOLATION = "berth-isolation"
"""The ResourceQuota that lets no Pod have an affinity, or anti-affinity, to Pods of other namespaces."""
OBJECTS = "berth-objects"
"""The ResourceQuota that bounds how many objects there are."""
_RETRY = 1.0
_RECOUNT = 10.0
"""Seconds before a quota is counted again: kube-controller-manager looks for new kinds every 30 seconds."""


class BoundsPending(Transient):
    """A quota is there and does not hold yet: its objects are not counted yet."""


class ForeignBound(Terminal):
    """A quota of our name with scopes, which narrow it and cannot be changed."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One object of a tenant's namespace, with the fields that are Berth's."""

    resource: Resource
    name: str
    fields: JSON

    def body(self, namespace: str) -> JSON:
        metadata: JSON = {"name": self.name, "namespace": namespace}
        if self.resource == RESOURCE_QUOTAS:
            metadata["labels"] = {MANAGED_BY: MANAGER}
        return self.resource.body(metadata, **self.fields)

    def is_met_by(self, present: JSON) -> bool:
        """Whether the fields are as they should be, and nothing is added to them."""
        return all(present.get(name) == value for name, value in self.fields.items())

    def holds_in(self, present: JSON) -> bool:
        """Whether it bounds what it should: more bounds do no harm."""
        return _covers(present, self.fields)


def bounds_of(quota: Mapping[str, int]) -> tuple[Bound, ...]:
    """Everything that is kept in each tenant's namespace, for these bounds of objects."""
    selector = {"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]}
    counts = {name: canonical(number) for name, number in sorted(quota.items()) if not name.startswith(COMPANIONS)}
    return (
        Bound(RESOURCE_QUOTAS, ISOLATION, {"spec": {"hard": {"pods": "0"}, "scopeSelector": selector}}),
        Bound(RESOURCE_QUOTAS, OBJECTS, {"spec": {"hard": counts}}),
        Bound(SERVICE_ACCOUNTS, "default", {"automountServiceAccountToken": False}),
    )


async def ensure_bounds(client: KubeClient, namespace: str, bounds: Iterable[Bound]) -> None:
    """Have all of them in the namespace.

    Raises BoundsPending where a quota does not hold yet, ForeignBound where it never will, or ApiError where the API
    server does not let us.
    """
    pending = [found for bound in bounds if (found := await _ensure(client, namespace, bound)) is not None]
    if pending:
        raise BoundsPending("; ".join(map(str, pending)), delay=max(one.delay or 0.0 for one in pending))


async def _ensure(client: KubeClient, namespace: str, bound: Bound) -> BoundsPending | None:
    """Why it does not hold yet, None where it does."""
    present = await get_or_none(client, bound.resource, bound.name, namespace=namespace)
    if present is None or not bound.is_met_by(present):
        present = await _apply(client, namespace, bound)
    if bound.resource != RESOURCE_QUOTAS:
        return None
    if present["spec"].get("scopes"):
        raise ForeignBound(f"ResourceQuota {namespace}/{bound.name} has scopes, which cannot be changed: remove it")
    missing, delay = uncounted_in(present), _RETRY
    if missing and _status(present, "hard") == present["spec"].get("hard", {}):
        # Counted before its counter knew these kinds (definitions that are new). It counts again when bounds change.
        fewer = {name: value for name, value in bound.fields["spec"]["hard"].items() if name not in missing}
        await _apply(client, namespace, Bound(bound.resource, bound.name, {"spec": {"hard": fewer}}))
        await _apply(client, namespace, bound)
        delay = _RECOUNT
    if not missing:
        return None
    return BoundsPending(
        f"ResourceQuota {namespace}/{bound.name} does not hold yet for {', '.join(missing)}: kube-controller-manager "
        "has not counted them",
        delay=delay,
    )


def uncounted_in(quota: JSON) -> list[str]:
    """The resources of a quota for which the API server has no bound, or no count, to enforce."""
    hard, used = _status(quota, "hard"), _status(quota, "used")
    bounds: JSON = quota["spec"].get("hard") or {}
    return [name for name, value in bounds.items() if hard.get(name) != value or name not in used]


async def _apply(client: KubeClient, namespace: str, bound: Bound) -> JSON:
    body = bound.body(namespace)
    return await client.apply(bound.resource, bound.name, body, namespace=namespace, field_manager=FIELD_MANAGER)


def _covers(present: object, wanted: object) -> bool:
    if isinstance(present, dict) and isinstance(wanted, dict):
        return all(name in present and _covers(present[name], value) for name, value in wanted.items())
    return present == wanted


def _status(quota: JSON, field: str) -> JSON:
    return (quota.get("status") or {}).get(field) or {}
