"""Refuses Pods, Pod templates and claims of devices that must not be in a tenant's namespace, by any writer.

The gateway looks at manifests before it writes them, with the same guards. This is the wall for everything that does
not come through the gateway, and for what other webhooks add. Labels, owners and finalizers are not looked at here:
controllers of the cluster write them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from app.admission.chain import MutationPlan, refuse
from app.admission.parts import Namespaces
from app.admission.review import Request, check_namespace, decode_object, old_object
from app.networks.places import misplaced
from app.pace import at_pace
from app.placement.model import TenantPolicy
from app.workloads.templates.bounds import at
from app.workloads.templates.guards import CLAIM, PRIORITY, findings, forbidden_fields

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
_MOST_PROBLEMS = 4096
"""Of one object, that are counted; a message shows fewer."""
_SUBRESOURCES = ("", "ephemeralcontainers")
_POD = ("", "Pod")


class TenantPodCheck:
    """Neutral outside tenants' namespaces, to static Pods, and to updates that leave the part as it was.

    So finalizers of what was there before can be removed. An object that is being deleted is checked like others.

    Without a lookup no namespace is a tenant's. Claims that the scheduler makes are held to the same: a DeviceClass may
    give its devices for an extended resource of any name (`extendedResourceName`), and only the claim says which class.
    """

    def __init__(self, lookup: Namespaces[str] | None, policy: TenantPolicy) -> None:
        self._lookup = lookup
        self._policy = policy

    def check(self, request: Request, plan: MutationPlan) -> Awaitable[None] | None:
        """Raise Denied ("TenantIsolation") with every problem, Transient where the namespace's tenant cannot be read.

        Returns None when that is done, and something to await where the cache does not know the namespace.
        """
        kind = (request.kind.group, request.kind.kind)
        writes = request.operation in ("CREATE", "UPDATE") and request.sub_resource in _SUBRESOURCES
        if self._lookup is None or not writes or not request.has_object or not (kind in TEMPLATES or kind in CLAIMS):
            return None
        tenant = self._lookup.cached(request.namespace)
        if tenant is None:
            check_namespace(request.namespace)
            return self._find_and_check(self._lookup, request, plan)
        if tenant:
            self._judge(request, plan)
        return None

    async def _find_and_check(self, lookup: Namespaces[str], request: Request, plan: MutationPlan) -> None:
        if await lookup.find(request.namespace):
            await at_pace(partial(self._judge, request, plan))

    def _judge(self, request: Request, plan: MutationPlan) -> None:
        kind = (request.kind.group, request.kind.kind)
        obj = decode_object(request.object, reason="UnreadableObject")
        annotations = at(obj, "metadata.annotations")
        if isinstance(annotations, dict) and request.is_static_pod(annotations):
            return
        path = CLAIMS.get(kind) or TEMPLATES[kind]
        part, before = at(obj, path), at(old_object(request, reason="UnreadableObject"), path)
        if part != before:
            what = "not allowed in the namespace of a tenant: "
            problems = islice(self._problems(kind, path, part, before), _MOST_PROBLEMS)
            refuse(list(problems), reason="TenantIsolation", what=what)
            if kind in TEMPLATES and kind != _POD:
                homes = (path.removesuffix(".spec"),)
                plan.warnings += (
                    finding.text for finding in misplaced(at(obj, "metadata"), "metadata", kind[1], templates=homes)
                )

    def _problems(self, kind: tuple[str, str], path: str, part: Any, before: Any) -> Iterator[str]:
        if kind in CLAIMS:
            yield from findings(part, CLAIM, path, self._policy)
            return
        if kind == _POD and before is not None and isinstance(part, dict):
            # The scheduler has written where a Pod runs before any update.
            part = {field: value for field, value in part.items() if field != "nodeName"}
        yield from forbidden_fields(part, path, self._policy, admitted=True)
        if kind != _POD:
            yield from findings(part, PRIORITY, path, self._policy)
