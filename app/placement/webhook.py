"""The wing's part in the chain: confines Pods to the DPU of a host and to the DPUs of their namespace's tenant.

Only Pod CREATE is looked at. The namespace of the Pod is the request's, which the API server vouches for. What the
author of a Pod asks for can be given up by its author; that a Pod stays on its tenant's DPUs cannot.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

import msgspec

from app.admission.chain import MutationPlan, audit_text
from app.admission.parts import Context, Namespaces, Parts
from app.admission.pods import INJECT, NO_SPEC, Pod, unreadable
from app.admission.review import Request, check_namespace
from app.pace import at_pace
from app.placement.model import DPU_OF_HOST, Affinity, PlacementOptions, PodSpec, Requirement, tenant_of
from app.placement.plan import plan_affinity, refuse_contradictions, requirements
from app.placement.settings import ConfinementSettings
from app.settings.source import settings_as
from app.text import quoted

_decode_affinity = msgspec.json.Decoder(Affinity | None).decode


def review(context: Context) -> Parts:
    """The placement on DPUs."""
    settings = settings_as(context.settings, ConfinementSettings)
    # Where tenants are not confined, the role may not read namespaces.
    tenants = context.caches.namespaces(tenant_of) if settings.confine_tenants else None
    keys = {settings.placement.host_label, settings.placement.tenant_node_label}
    return Parts(
        injectors=(PlacementInjector(tenants, options=settings.placement),),
        injects=lambda kind, name: kind == "placement" and name in keys,
    )


class PlacementInjector:
    """Adds required node affinity. Holds no state of its own. Without a lookup tenants are not looked at.

    In a chain it stands behind injectors that may opt out: an injection here overrides their "nothing to do".
    """

    name = "placement"

    def __init__(self, lookup: Namespaces[str] | None, *, options: PlacementOptions | None = None) -> None:
        self._options = options or PlacementOptions()
        self._lookup = lookup if self._options.tenant_node_label else None

    def inject(self, request: Request, plan: MutationPlan) -> Awaitable[None] | None:
        """Plan the affinity for the creation of a Pod; leave `plan` untouched for every other request.

        Returns None when that is done, and something to await where the cache does not know the namespace. Raises
        Denied where the Pod contradicts what is required, Transient where its tenant is unknown.
        """
        if not request.creates_pod:
            return None
        pod = request.pod
        if self._lookup is None or request.is_static_pod(pod.metadata.annotations):
            if DPU_OF_HOST in pod.metadata.annotations:
                self._plan(pod, None, plan)
            return None
        namespace = request.namespace or pod.metadata.namespace
        tenant = self._lookup.cached(namespace)
        if tenant is None:
            check_namespace(namespace)
            return self._find_and_plan(self._lookup, namespace, pod, plan)
        if tenant or DPU_OF_HOST in pod.metadata.annotations:
            self._plan(pod, (namespace, tenant), plan)
        return None

    async def _find_and_plan(self, lookup: Namespaces[str], namespace: str, pod: Pod, plan: MutationPlan) -> None:
        home = namespace, await lookup.find(namespace)
        await at_pace(partial(self._plan, pod, home, plan))

    def _plan(self, pod: Pod, home: tuple[str, str] | None, plan: MutationPlan) -> None:
        """`home` is the namespace with its tenant, None where the namespace does not matter."""
        requirements_of_pod = self._wanted(_host(pod, plan), home)
        if not requirements_of_pod:
            return
        spec = _spec_of(pod)
        refuse_contradictions(spec, requirements_of_pod)
        added = plan_affinity(spec, requirements_of_pod, plan.patch)
        if not added:
            plan.skip("NothingMissing", "the Pod has the node affinity that it needs")
            return
        if plan.reason != "Injected":
            plan.reason, plan.message = "Injected", ""
        plan.count("affinity", len(added))
        plan.audit["decision"] = plan.reason
        plan.audit["affinity"] = audit_text(
            f"{requirement.key}={requirement.value} ({requirements_of_pod[requirement]})" for requirement in added
        )

    def _wanted(self, host: str | None, home: tuple[str, str] | None) -> dict[Requirement, str]:
        """The requirements, each with its reason."""
        namespace, tenant = home or ("", "")
        if host is None and not tenant:
            return {}
        reasons = [] if host is None else [f"annotation {DPU_OF_HOST}: {quoted(host)[1:-1]}"]
        reasons.append(f"namespace {namespace} belongs to tenant {quoted(tenant)[1:-1]}")
        placements = requirements(host=host, tenant=tenant, options=self._options)
        return dict(zip(placements, reasons, strict=False))


def _spec_of(pod: Pod) -> PodSpec | None:
    """What of the spec decides, None where there is no spec. Raises Denied where it cannot be read."""
    spec = pod.spec
    if spec is NO_SPEC:
        return None
    try:
        affinity = _decode_affinity(spec.affinity)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(error) from error
    return PodSpec(spec.node_name, dict(spec.node_selector), affinity)


def _host(pod: Pod, plan: MutationPlan) -> str | None:
    """The host that the author of the Pod asks for; None where there is none, or where it does not count."""
    host = pod.metadata.annotations.get(DPU_OF_HOST)
    if host is None:
        return None
    if pod.mirror:
        plan.skip("MirrorPod", "the Pod mirrors a static Pod: it runs already")
        return None
    if where := pod.opted_out:
        plan.skip("OptedOut", f'{where} {INJECT} is "false": annotation {DPU_OF_HOST} does not count')
        return None
    return host
