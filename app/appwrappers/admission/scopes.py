"""Kinds of which no object can be a component: those without a namespace, lists, and questions to an API server. Pure.

Facts: the built-in kinds are those of Kubernetes 1.37, of which a real API server's discovery is asked in the tests.
The others are what their definitions say: Kueue 0.19.2, Kubeflow trainer 2.2.1, Gateway API 1.6.0, cert-manager,
NVIDIA's GPU and network operators, node feature discovery, KubeVirt, Volcano, Calico, Cilium, Argo Workflows, Kyverno,
Gatekeeper, External Secrets, Karpenter, the external snapshotter.
"""

from __future__ import annotations

from app.kinds.tables import is_built_in
from app.text import quoted
from app.wire import JSON

_CLUSTER_SCOPED: dict[str, tuple[str, ...] | None] = {
    "": ("Namespace", "Node", "PersistentVolume", "ComponentStatus"),
    "admissionregistration.k8s.io": None,
    "apiextensions.k8s.io": None,
    "apiregistration.k8s.io": None,
    "certificates.k8s.io": ("CertificateSigningRequest", "ClusterTrustBundle"),
    "flowcontrol.apiserver.k8s.io": None,
    "internal.apiserver.k8s.io": None,
    "networking.k8s.io": ("IngressClass", "IPAddress", "ServiceCIDR"),
    "node.k8s.io": None,
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding"),
    "resource.k8s.io": ("DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourcePoolStatusRequest"),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"),
    "storagemigration.k8s.io": None,
    "kueue.x-k8s.io": (
        "AdmissionCheck",
        "ClusterQueue",
        "Cohort",
        "MultiKueueCluster",
        "MultiKueueConfig",
        "ProvisioningRequestConfig",
        "ResourceFlavor",
        "Topology",
        "WorkloadPriorityClass",
    ),
    "trainer.kubeflow.org": ("ClusterTrainingRuntime",),
    "kubeflow.org": ("ClusterTrainingRuntime", "Profile"),
    "gateway.networking.k8s.io": ("GatewayClass",),
    "cert-manager.io": ("ClusterIssuer",),
    "nvidia.com": ("ClusterPolicy", "NVIDIADriver"),
    "mellanox.com": ("NicClusterPolicy", "HostDeviceNetwork", "IPoIBNetwork", "MacvlanNetwork"),
    "nfd.k8s-sigs.io": ("NodeFeatureRule",),
    "snapshot.storage.k8s.io": ("VolumeSnapshotClass", "VolumeSnapshotContent"),
    "groupsnapshot.storage.k8s.io": ("VolumeGroupSnapshotClass", "VolumeGroupSnapshotContent"),
    "policy.networking.k8s.io": None,
    "instancetype.kubevirt.io": ("VirtualMachineClusterInstancetype", "VirtualMachineClusterPreference"),
    "scheduling.volcano.sh": ("Queue",),
    "topology.volcano.sh": ("HyperNode",),
    "crd.projectcalico.org": (
        "BGPConfiguration",
        "BGPPeer",
        "ClusterInformation",
        "FelixConfiguration",
        "GlobalNetworkPolicy",
        "GlobalNetworkSet",
        "HostEndpoint",
        "IPPool",
    ),
    "cilium.io": ("CiliumClusterwideNetworkPolicy", "CiliumIdentity", "CiliumLoadBalancerIPPool", "CiliumNode"),
    "argoproj.io": ("ClusterWorkflowTemplate",),
    "kyverno.io": ("ClusterPolicy", "ClusterCleanupPolicy"),
    "templates.gatekeeper.sh": None,
    "constraints.gatekeeper.sh": None,
    "external-secrets.io": ("ClusterSecretStore", "ClusterExternalSecret"),
    "karpenter.sh": None,
    "workload.infra.universe.nvidia.com": ("Tenant",),
}
"""Kinds without a namespace by group; None for all of a group. Discovery says it of the others."""
_QUESTIONS: dict[str, tuple[str, ...] | None] = {
    "": ("Binding", "Eviction"),
    "authentication.k8s.io": None,
    "authorization.k8s.io": None,
    "policy": ("Eviction",),
}
"""Kinds of which nothing is kept."""


def kind_problem(template: JSON) -> str:
    """Why no object of a kind can be a component; "" where one can, as far as is known without discovery."""
    group, kind = str(template["apiVersion"]).rpartition("/")[0], template["kind"]
    # Of a built-in kind a list is known by its name.
    if kind.endswith("List") and (is_built_in(group) or isinstance(template.get("items"), list)):
        return f"want one object, got the list {quoted(kind)}: make each of its items a component"
    if _has(_QUESTIONS, group, kind):
        return f"want a kind whose objects are kept, got {quoted(kind)}, which only asks an API server"
    return no_namespace(kind) if _has(_CLUSTER_SCOPED, group, kind) else ""


def no_namespace(kind: str) -> str:
    """The problem of a kind without namespaces."""
    return f"want a kind whose objects are in namespaces, got {quoted(kind)}: create it by itself"


def _has(kinds: dict[str, tuple[str, ...] | None], group: str, kind: str) -> bool:
    found = kinds.get(group, ())
    return found is None or kind in found
