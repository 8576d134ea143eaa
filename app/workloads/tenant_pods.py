"""Refuses Pods, Pod templates and claims of devices that must not be in a tenant's namespace, by any writer.

The gateway looks at manifests before it writes them, with the same guards. This is the wall for everything that does
not come through the gateway, and for what other webhooks add. Labels, owners and finalizers are not looked at here:
controllers of the cluster write them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.admission.chain import Plan
from app.admission.review import Request, check_namespace
from app.admission.written import decode_object, old_object
from app.errors import Denied
from app.placement.policy import TenantPolicy
from app.placement.webhook import TenantLookup, is_static
from app.workloads.templates.guards import forbidden_fields
from app.workloads.templates.isolation import claim_problems, priority_fields
from app.workloads.templates.marks import at, joined, member

TEMPLATES: Final[Mapping[tuple[str, str], str]] = {
    ("", "Pod"): "spec",
    ("", "PodTemplate"): "template.spec",
    ("", "ReplicationController"): "spec.template.spec",
    ("apps", "DaemonSet"): "spec.template.spec",
    ("apps", "Deployment"): "spec.template.spec",
    ("apps", "ReplicaSet"): "spec.template.spec",
    ("apps", "StatefulSet"): "spec.template.spec",
    ("batch", "CronJob"): "spec.jobTemplate.spec.template.spec",
    ("batch", "Job"): "spec.template.spec",
}
"""The kinds that hold the spec of a Pod, by group, with its path."""
CLAIMS: Final[Mapping[tuple[str, str], str]] = {
    ("resource.k8s.io", "ResourceClaim"): "spec",
    ("resource.k8s.io", "ResourceClaimTemplate"): "spec.spec",
}
_SUBRESOURCES = ("", "ephemeralcontainers")
_POD = ("", "Pod")


@dataclass(frozen=True, slots=True)
class _Write:
    """What is written: the part at `path`, and what stood there before an update."""

    kind: tuple[str, str]
    path: str
    part: Any
    before: Any


class TenantPodCheck:
    """Neutral outside tenants' namespaces, to static Pods, and to updates that leave the part as it was.

    Without a lookup no namespace is a tenant's. Claims that the scheduler makes are held to the same: a DeviceClass may
    give its devices for an extended resource of any name (`extendedResourceName`), and only the claim says which class.
    """

    name = "tenant-pods"

    def __init__(self, lookup: TenantLookup | None, policy: TenantPolicy) -> None:
        self._lookup = lookup
        self._policy = policy

    def check(self, request: Request, _plan: Plan) -> Awaitable[None] | None:
        """Raise Denied ("TenantIsolation") with every problem, Transient where the namespace's tenant cannot be read.

        Returns None when that is done, and something to await where the cache does not know the namespace.
        """
        if self._lookup is None or not _applies(request):
            return None
        tenant = self._lookup.cached(request.namespace)
        if tenant is None:
            check_namespace(request.namespace)
            return self._find_and_check(self._lookup, request)
        if tenant:
            self._judge(request)
        return None

    async def _find_and_check(self, lookup: TenantLookup, request: Request) -> None:
        if await lookup.find(request.namespace):
            self._judge(request)

    def _judge(self, request: Request) -> None:
        write = _written(request)
        if write is None or write.part == write.before:
            return
        problems = list(self._problems(write))
        if problems:
            raise Denied(f"not allowed in the namespace of a tenant: {joined(problems)}", reason="TenantIsolation")

    def _problems(self, write: _Write) -> Iterator[str]:
        if write.kind in CLAIMS:
            yield from claim_problems(write.part, write.path, self._policy)
            return
        spec = write.part
        if write.kind == _POD and write.before is not None and isinstance(spec, dict):
            # The scheduler has written where a Pod runs before any update.
            spec = {field: value for field, value in spec.items() if field != "nodeName"}
        yield from forbidden_fields(spec, write.path, self._policy, admitted=True)
        if write.kind != _POD:
            yield from priority_fields(spec, write.path)


def _applies(request: Request) -> bool:
    kind = (request.kind.group, request.kind.kind)
    writes = request.operation in ("CREATE", "UPDATE") and request.has_object
    return writes and request.sub_resource in _SUBRESOURCES and (kind in TEMPLATES or kind in CLAIMS)


def _written(request: Request) -> _Write | None:
    """None for a static Pod, and for what is being deleted: its finalizers can be removed."""
    kind = (request.kind.group, request.kind.kind)
    obj = decode_object(request.object, reason="UnreadableObject")
    metadata = obj.get("metadata")
    if member(metadata, "deletionTimestamp"):
        return None
    annotations = member(metadata, "annotations")
    if is_static(request, annotations if isinstance(annotations, dict) else None):
        return None
    path = CLAIMS.get(kind) or TEMPLATES[kind]
    return _Write(kind, path, at(obj, path), at(old_object(request, reason="UnreadableObject"), path))
