"""Names of the API resources that Berth reads and writes, the paths under which an API server serves them, and owners.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from app.errors import ApiError
from app.kube.names import check_path_segment
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Resource:
    """One API resource: `group` is "" for the core group, `plural` the name in paths.

    `since` is the Kubernetes that first serves it in this version, where the oldest that is supported does not.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    since: str = field(default="", compare=False)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def body(self, metadata: JSON, **parts: Any) -> JSON:
        """An object of this resource."""
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **parts}

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object or of its subresource; every segment is quoted.

        Raises ApiError (400) for a segment that no name of the API can be, such as `..`: an object of this name does
        not exist, and the path would be that of another one.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [self.plural, *(part for part in (name, subresource) if part is not None)]
        return path_of(parts)


_OF_KUBERNETES = frozenset({"", "apps", "autoscaling", "batch", "extensions", "policy"})


def is_built_in(group: str) -> bool:
    """Whether API servers serve the group themselves: no definition has to be installed for its kinds."""
    return group in _OF_KUBERNETES or group.endswith(".k8s.io")


_LONGEST = 253
"""Characters of a name. Servers answer paths of some megabytes with an error that says nothing of the object."""


def path_of(segments: Iterable[str]) -> str:
    """The absolute path of these segments, each quoted.

    Raises ApiError: 400 for what cannot be a segment, 404 for a name that is too long for any object.
    """
    quoted = list[str]()
    for segment in segments:
        if len(segment) > _LONGEST:
            raise ApiError(f"no object has a name of {len(segment)} characters", status=404, reason="NotFound")
        try:
            quoted.append(f"/{quote(check_path_segment(segment), safe='')}")
        except ValueError as error:
            raise ApiError(f"path of a request: {error}", status=400, reason="BadRequest") from error
    return "".join(quoted)


def controller_of(metadata: JSON) -> JSON:
    """The owner reference of the controller, empty where the object has none; `metadata` may be unchecked JSON."""
    owners = metadata.get("ownerReferences")
    listed = owners if isinstance(owners, list) else ()
    return next((owner for owner in listed if isinstance(owner, dict) and owner.get("controller")), {})


def controller_reference(resource: Resource, name: str, uid: str) -> JSON:
    """The owner reference that makes an object of this resource the controller of what carries the reference.

    It does not block the deletion of the controller: that takes the right to change the finalizers of the controller.
    """
    return {"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid, "controller": True}


IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""With the name of a DeviceClass: the extended resource that each class has beside its own (KEP-5004)."""
PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICES = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
EVENTS = Resource("", "v1", "events", "Event")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
_RBAC = "rbac.authorization.k8s.io"
ROLES, ROLE_BINDINGS = (Resource(_RBAC, "v1", f"{kind.lower()}s", kind) for kind in ("Role", "RoleBinding"))
CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS = (
    Resource(_RBAC, "v1", f"{kind.lower()}s", kind, namespaced=False) for kind in ("ClusterRole", "ClusterRoleBinding")
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS = (
    Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)
MUTATING_POLICIES, VALIDATING_POLICIES = (
    Resource(
        "admissionregistration.k8s.io",
        "v1",
        f"{word.lower()}admissionpolicies",
        f"{word}AdmissionPolicy",
        namespaced=False,
        since=since,
    )
    for word, since in (("Mutating", "1.36"), ("Validating", ""))
)
MUTATING_POLICY_BINDINGS, VALIDATING_POLICY_BINDINGS = (
    Resource(
        policy.group,
        policy.version,
        f"{policy.kind.lower()}bindings",
        f"{policy.kind}Binding",
        namespaced=False,
        since=policy.since,
    )
    for policy in (MUTATING_POLICIES, VALIDATING_POLICIES)
)
NETWORK_ATTACHMENTS = Resource("k8s.cni.cncf.io", "v1", "network-attachment-definitions", "NetworkAttachmentDefinition")
RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES = (
    Resource("resource.k8s.io", "v1", f"{kind.lower()}s", kind, since="1.34")
    for kind in ("ResourceClaim", "ResourceClaimTemplate")
)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False, since="1.34")
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False, since="1.34")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
