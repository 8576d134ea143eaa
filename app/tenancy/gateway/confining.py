"""Keeps what a tenant asks for on the tenant's DPUs: in Pods, in the templates of DaemonSets, and in those of rules.

The webhook of the infra cluster confines Pods too. But a DaemonSet's controller decides from the template where Pods
belong, and those for other tenants' DPUs would be made only to stay pending.
"""

from __future__ import annotations

from app.kube.resources import PODS, Resource
from app.placement.model import PlacementOptions, Requirement
from app.placement.plan import contradictions, placed, requirements
from app.tenancy.gateway.failures import invalid
from app.wire import JSON
from app.workloads.model import DAEMON_SETS, TENANT_NAMESPACE_PREFIX


def confined(body: JSON, *, resource: Resource, namespace: str, options: PlacementOptions, path: str) -> JSON:
    """The object with the affinity of its tenant; INVALID_ARGUMENT where it asks for what no such node has."""
    wanted = confinement(namespace, options)
    if not wanted or resource not in (PODS, DAEMON_SETS):
        return body
    if resource == PODS:
        return {**body, "spec": _placed(body["spec"], wanted, f"{path}.spec")}
    spec, template = body["spec"], body["spec"]["template"]
    inner = _placed(template["spec"], wanted, f"{path}.spec.template.spec")
    return {**body, "spec": {**spec, "template": {**template, "spec": inner}}}


def confinement(namespace: str, options: PlacementOptions) -> tuple[Requirement, ...]:
    """What the nodes of a tenant's namespace carry; nothing where tenants are not confined."""
    tenant = namespace.removeprefix(TENANT_NAMESPACE_PREFIX)
    return requirements(host=None, tenant=tenant, options=options)


def _placed(spec: JSON, wanted: tuple[Requirement, ...], path: str) -> JSON:
    if problems := contradictions(spec, wanted, path):
        raise invalid(problems)
    return placed(spec, wanted)
