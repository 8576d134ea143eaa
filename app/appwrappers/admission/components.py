"""What is wrong with the components of an AppWrapper, one by one and together. Pure, for any JSON.

Each line begins with the path of the field. Rules: those of AppWrapper v1.2 in its words, and what could only fail
later.

No object can be a component of the kinds without a namespace, of lists, and of questions to an API server. Facts: the
built-in kinds are those of Kubernetes 1.37, of which a real API server's discovery is asked in the tests. The others
are what their definitions say: Kueue 0.19.2, Kubeflow trainer 2.2.1, Gateway API 1.6.0, cert-manager, NVIDIA's GPU
and network operators, node feature discovery, KubeVirt, Volcano, Calico, Cilium, Argo Workflows, Kyverno, Gatekeeper,
External Secrets, Karpenter, the external snapshotter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.appwrappers.admission.creation import creation_problems, creation_warnings, identity_of, object_problems
from app.appwrappers.admission.templates import missing_pod_sets, template_problems
from app.appwrappers.model import APP_WRAPPERS
from app.appwrappers.podsets.inference import PodSet, counted, inferred, read_pod_set, with_submitter
from app.appwrappers.podsets.paths import is_text_map, metadata_problem
from app.appwrappers.sizes import MOST_PODS, count_problems, size_problems
from app.kinds.shapes import is_built_in
from app.kube.resources import controller_of
from app.numbers import shown
from app.pace import step
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
PATH = "spec.components"


def component_problems(
    spec: Any, *, name: str, namespace: str, most: int, warnings: list[str] | None = None
) -> Iterator[str]:
    """All problems of the components; `most` podSets fit into a Workload.

    What is let through and will most likely not run goes to `warnings`: objects that are suspended, podSetInfos too
    many, and fields of a Pod's spec that are not known, as a newer API server may have them.
    """
    warnings = [] if warnings is None else warnings
    components = spec.get("components") if isinstance(spec, dict) else None
    if not isinstance(components, list) or not all(isinstance(component, dict) for component in components):
        yield f"{PATH}: want a list of components, each with a template"
        return
    if too_many := list(count_problems(components)):
        yield from too_many
        return
    # Before any template is decoded: each of them may be as large as the whole object.
    seen = sum(map(counted, components))
    if seen > most:
        yield _too_many(seen, most)
        return
    problems: list[str] = []
    identities: dict[tuple[str, str, str], int] = {}
    total, pods = 0, 0
    for index, component in enumerate(components):
        step()
        path = f"{PATH}[{index}]"
        faults = list(_object_problems(component.get("template"), f"{path}.template", namespace))
        if not faults:
            pod_sets: list[PodSet] = []
            unknown: list[str] = []
            faults = list(_pod_set_problems(component, path, name, pod_sets, unknown))
            faults += _doubled(component["template"], index, identities)
            faults += object_problems(component["template"], f"{path}.template", unknown, readable=not faults)
            warnings += creation_warnings(component, path) if not faults else ()
            decides = "unknown to Berth; the API server decides about it"
            warnings += [f"{path}.{field}: {decides}" for field in dict.fromkeys(unknown)]
            total += len(pod_sets)
            pods += sum(max(pod_set.replicas, 0) for pod_set in pod_sets)
        problems += faults
    yield from problems
    yield from _sum_problems(components, total=total, pods=pods, most=most, readable=not problems)


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


def _sum_problems(components: list[JSON], *, total: int, pods: int, most: int, readable: bool) -> Iterator[str]:
    """What is wrong with all components together: the podSets, their Pods, and the bytes where all are `readable`."""
    if total > most:
        yield _too_many(total, most)
    if readable and not total:
        yield f"{PATH}: components contains no podspecs: want at least one podSet{missing_pod_sets(components)}"
    elif readable and not pods:
        yield f"{PATH}: all podSets have 0 replicas: want at least one Pod"
    elif pods > MOST_PODS:
        most_pods = f"want at most {MOST_PODS}, as a Workload counts no more"
        yield f"{PATH}: all podSets have {shown(pods)} Pods together: {most_pods}"
    elif readable and total <= most:
        yield from size_problems(components)


def _doubled(template: JSON, index: int, identities: dict[tuple[str, str, str], int]) -> Iterator[str]:
    """A problem where an earlier component is the same object; `identities` are theirs."""
    identity = identity_of(template)
    if identity is None:
        return
    first = identities.setdefault(identity, index)
    if first != index:
        yield (
            f"{PATH}[{index}].template.metadata.name: {PATH}[{first}] is the {template['kind']} {quoted(identity[2])} "
            "already: want another name, or generateName"
        )


def _too_many(pod_sets: int, most: int) -> str:
    return f"{PATH}: components contains {pod_sets} podspecs; at most {most} are allowed, as a Workload has no more"


def _object_problems(template: Any, path: str, namespace: str) -> Iterator[str]:
    if not isinstance(template, dict) or not all(_text(template.get(field)) for field in ("apiVersion", "kind")):
        yield f"{path}: failed to decode as JSON: want an object with apiVersion and kind"
        return
    if problem := kind_problem(template):
        yield f"{path}.kind: {problem}"
        return
    group = template["apiVersion"].rpartition("/")[0]
    if (group, template["kind"]) == (APP_WRAPPERS.group, APP_WRAPPERS.kind):
        yield f"{path}: Nested AppWrappers are forbidden: take the components of this one instead"
    metadata: Any = template.get("metadata")
    if problem := metadata_problem(metadata):
        yield f"{path}.metadata{problem}"
        return
    if metadata.get("namespace") not in (None, "", namespace):
        yield (
            f"{path}.metadata.namespace: AppWrappers cannot create objects in other namespaces: want {namespace} "
            f"or nothing, got {quoted(str(metadata['namespace']))}"
        )
    if controller_of(metadata):
        yield f"{path}.metadata.ownerReferences: the AppWrapper is the controller of its objects: leave out any other"
        return
    yield from creation_problems(template, path)


def _pod_set_problems(
    component: JSON, path: str, name: str, pod_sets: list[PodSet], unknown: list[str]
) -> Iterator[str]:
    """Problems of the podSets of a component; what counts goes to `pod_sets`, unknown fields go to `unknown`."""
    template, entries = component["template"], component.get("podSets") or []
    if not isinstance(entries, list):
        yield f"{path}.podSets: want a list"
        return
    declared: list[PodSet] = []
    decoded = set[str]()
    for index, entry in enumerate(entries):
        step()
        problem = _declared_problem(entry)
        if problem:
            yield f"{path}.podSets[{index}]{problem}"
            continue
        declared.append(read_pod_set(entry))
        where = declared[-1].path
        if where not in decoded:
            decoded.add(where)
            yield from template_problems(template, where, f"{path}.podSets[{index}].path", name, unknown)
    if len(declared) != len(entries):
        return
    try:
        inferred_sets = inferred(template)
    except ValueError as error:
        yield f"{path}.template: error inferring PodSets: {error}"
        return
    for pod_set in inferred_sets if not declared else ():
        yield from template_problems(template, pod_set.path, f"{path}.{pod_set.path}", name, unknown)
    for pod_set in inferred_sets:
        if pod_set.replicas < 0:
            yield f"{path}.{pod_set.path}: want 0 replicas or more, got {shown(pod_set.replicas)}"
    declared = with_submitter(template, declared)
    yield from _differences(declared, inferred_sets, f"{path}.podSets")
    pod_sets += inferred_sets if len(inferred_sets) > len(declared) else declared


def _declared_problem(declared: Any) -> str:
    if not isinstance(declared, dict) or not _text(declared.get("path")):
        return ".path: podspec must specify path, such as template.spec.template"
    replicas = declared.get("replicas", 1)
    if replicas is not None and (not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0):
        return f".replicas: want an integer that is 0 or more, got {quoted(str(replicas))}"
    annotations = declared.get("annotations")
    if annotations is not None and not is_text_map(annotations):
        return f".annotations: want texts by names, got {quoted(str(annotations))}"
    return ""


def _differences(declared: list[PodSet], inferred_sets: list[PodSet], path: str) -> Iterator[str]:
    """Where declared podSets are not those that the kind has."""
    by_path: dict[str, PodSet] = {}
    for pod_set in declared:
        if pod_set.path in by_path:
            yield f"{path}: multiple DeclaredPodSets with path {quoted(pod_set.path)}"
        by_path[pod_set.path] = pod_set
    if not declared or not inferred_sets:
        return
    if len(declared) != len(inferred_sets):
        yield f"{path}: DeclaredPodSet count {len(declared)} differs from inferred count {len(inferred_sets)}"
    for pod_set in inferred_sets:
        declaration = by_path.get(pod_set.path)
        if declaration is None:
            yield f"{path}: PodSet with path {quoted(pod_set.path)} is missing"
        elif declaration.replicas != pod_set.replicas:
            counts = f"replica count {declaration.replicas} differs from inferred count {pod_set.replicas}"
            yield f"{path}: {counts} for PodSet at path position {quoted(pod_set.path)}"


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _has(kinds: dict[str, tuple[str, ...] | None], group: str, kind: str) -> bool:
    names = kinds.get(group, ())
    return names is None or kind in names
