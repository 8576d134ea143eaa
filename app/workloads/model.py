"""Names and shapes of the Workload API: its kinds, the marks on what rules create, and the parsed values.

Facts: the Workload API of NVIDIA Universe (kinds, groups, field names, annotation of the rule's name, names of Pods
and Workloads). What it leaves open is decided in docs/workload-api.md. An agent sends of a Pod the spec of its
Workload, and of a UVS object its manifest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from app.kube.resources import Resource
from app.placement import model as placement
from app.wire import JSON

# Tenant cluster.
WORKLOAD_RULES = Resource("workload.universe.nvidia.com", "v1alpha1", "workloadrules", "WorkloadRule")
_RESOURCE_GROUP = "resource.universe.nvidia.com"
UVS_PODS = Resource(_RESOURCE_GROUP, "v1alpha1", "uvspods", "UVSPod")
UVS_DAEMON_SETS = Resource(_RESOURCE_GROUP, "v1alpha1", "uvsdaemonsets", "UVSDaemonSet")
UVS_SECRETS = Resource(_RESOURCE_GROUP, "v1alpha1", "uvssecrets", "UVSSecret")
UVS_CONFIG_MAPS = Resource(_RESOURCE_GROUP, "v1alpha1", "uvsconfigmaps", "UVSConfigMap")
UVS_RESOURCES = (UVS_PODS, UVS_DAEMON_SETS, UVS_SECRETS, UVS_CONFIG_MAPS)
# Infra cluster.
_INFRA_GROUP = "workload.infra.universe.nvidia.com"
WORKLOADS = Resource(_INFRA_GROUP, "v1alpha1", "workloads", "Workload")
TENANT_RULES = Resource(_INFRA_GROUP, "v1alpha1", "tenantworkloadrules", "TenantWorkloadRule")
ADMIN_RULES = Resource(_INFRA_GROUP, "v1alpha1", "adminworkloadrules", "AdminWorkloadRule")
TENANTS = Resource(_INFRA_GROUP, "v1alpha1", "tenants", "Tenant", namespaced=False)
SYSTEM_NAMESPACE = "universe"
"""In the infra cluster: of admin rules and their companions. In a tenant cluster: of rules, UVS objects and mirrors."""
TENANT_NAMESPACE_PREFIX = placement.TENANT_NAMESPACE_PREFIX
ALL_TENANTS = "*"
RESOURCE_TYPE = "v1/Pod"
ORCHESTRATOR = "kubernetes"
AGENT_OWNER = "agent"
"""What the agent calls itself as the owner of rules and objects that it keeps."""
RESERVED_DOMAINS = ("berth.dev", "universe.nvidia.com")
"""Only Berth may write labels and annotations below these domains (and their subdomains) on infra objects."""
USER_MARKS = frozenset({placement.DPU_OF_HOST, "berth.dev/inject", "berth.dev/resources-container"})
"""… but for these, by which the author of a Pod asks Berth for something."""
RULE_NAME = "workloadrule.workload.universe.nvidia.com/name"
"""Annotation on a companion and its mirror, by controller and agent: the name of the rule."""
COMPANION = "berth.dev/companion"
"""Label on a companion, by the controller: our mark; "tenant" or "admin", the kind of its rule."""
WORKLOAD_ID = "berth.dev/workload-id"
"""Label on a companion, by the controller: the id of its workload (shortened if it is not a label value)."""
WORKLOAD = "berth.dev/workload"
"""Annotation on a companion, by the controller: `<namespace>/<id>` of its workload in the infra cluster."""
RULE = "berth.dev/rule"
"""Annotation on a companion, by the controller: `<namespace>/<name>` of its rule in the infra cluster."""
SPEC_HASH = "berth.dev/spec-hash"
"""Annotation on a companion, by the controller: hash of what it was made from; with another it is replaced."""
INJECTED = "berth.dev/injected-annotations"
"""Annotation on a companion, by the controller: names of the annotations that were injected, a sorted JSON list."""
RESOURCE_OWNER = "berth.dev/resource-owner"
"""Label on an object that a tenant made through the resource service, by the gateway: our mark; who keeps it.

"agent" or "api".
"""
SOURCE_HASH = "berth.dev/source-hash"
"""Annotation on an object of the resource service, by the gateway: hash of the manifest that it was made from."""
RULE_OWNER = "berth.dev/rule-owner"
"""Label on a stored rule, by the gateway: who keeps it ("agent", "api")."""
RULE_GENERATION = "berth.dev/rule-generation"
"""Annotation on a TenantWorkloadRule, by the gateway: the generation of the WorkloadRule that it was made from."""
MIRROR = "berth.dev/mirror"
"""Label on a mirror, by the agent: our mark; "true"."""
IMPOSSIBLE = "ImpossibleKey"
"""Reason of the condition Matched of a rule that no workload can ever match."""
WARNED = {"Matched": IMPOSSIBLE}
"""What rules give a Warning of beside errors: the reason, by the condition."""
KEY_FAILED = "KeyFailed"
"""Reason of a problem: a key of the rule cannot be evaluated for a workload."""
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
Policy = Literal["Any", "SameNode"]
RuleKind = Literal["tenant", "admin"]
ObjectKey = tuple[str, str]
"""(namespace, name)."""
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Expression:
    """One condition on a workload; `values` is empty for Exists and DoesNotExist."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()


Term = tuple[Expression, ...]
"""All of its expressions must hold; there is at least one."""


@dataclass(frozen=True, slots=True)
class Injection:
    """The value at `key` of the workload becomes the annotation `annotation` of the companion."""

    key: str
    annotation: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A valid rule as it is stored in the infra cluster, of a tenant or of the admin.

    `tenants` are the names whose workloads it sees; None means all (an admin rule with "*"). `template` is the Pod
    manifest as compact sorted JSON. A workload matches if one of `terms` holds.
    """

    kind: RuleKind
    namespace: str
    name: str
    generation: int
    tenants: frozenset[str] | None
    terms: tuple[Term, ...]
    injections: tuple[Injection, ...]
    policy: Policy
    template: bytes

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name

    @property
    def keys(self) -> Iterator[str]:
        """The keys of the terms, in their order."""
        return (expression.key for term in self.terms for expression in term)

    @property
    def id(self) -> str:
        """`<namespace>/<name>`, as it stands in the status of a Workload."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Workload:
    """A tenant's Pod as the infra cluster sees it.

    `document` is what rules see: compact sorted JSON of `{"metadata": …, "state": …}` in the form of the Workload's
    spec. `id` is `metadata.id`; the object is `workload-<id>` in `namespace`, the namespace of its tenant.
    """

    namespace: str
    name: str
    id: str
    node_name: str
    document: bytes

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Waiting:
    """There should be no companion yet; `reason` is one CamelCase word."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """There should be a companion, and an error has to be fixed first; `reason` is one CamelCase word.

    `of_workload`: it comes from what the workload's tenant says of it, and other workloads do not have it.
    """

    reason: str
    message: str
    of_workload: bool = False


def tenant_namespace(tenant: str) -> str:
    """The namespace of a tenant in the infra cluster."""
    return TENANT_NAMESPACE_PREFIX + tenant


def tenant_name(namespace: str) -> str:
    return namespace.removeprefix(TENANT_NAMESPACE_PREFIX)


def workload_name(workload_id: str) -> str:
    """The name of a Workload object. Ids are checked at the gateway: lower-case DNS labels of at most 63 characters."""
    return f"workload-{workload_id}"


def counts_as_gone(pod: JSON, *, keep_finished: bool = False) -> bool:
    """Whether a Pod is no workload (any more): it is being deleted, or has finished."""
    finished = (pod.get("status") or {}).get("phase") in _FINISHED
    return bool(pod["metadata"].get("deletionTimestamp")) or (finished and not keep_finished)


def workload_spec(pod: JSON, *, ready: bool) -> JSON:
    """The spec of the Workload of a Pod with a UID; `ready` is its condition."""
    metadata = pod["metadata"]
    return {
        "metadata": {
            "id": metadata["uid"],
            "resourceName": metadata["name"],
            "resourceNamespace": metadata.get("namespace"),
        },
        "state": {
            "nodeName": (pod.get("spec") or {}).get("nodeName"),
            "ready": ready,
            "extra": {"labels": metadata.get("labels"), "annotations": metadata.get("annotations")},
        },
    }


def named_manifest(spec: JSON, name: str) -> JSON:
    """What a UVS object of this spec asks for, under its name. Raises ValueError where the manifest has another."""
    manifest = spec.get("object")
    if not isinstance(manifest, dict):
        raise ValueError("spec.object: want a manifest")  # noqa: TRY004  a fault of the object
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    named = metadata.get("name") or name
    if named != name:
        raise ValueError(f"spec.object.metadata.name: {named!r:.80} must be equal to metadata.name, {name!r}")
    return {**manifest, "metadata": {**metadata, "name": name}}
