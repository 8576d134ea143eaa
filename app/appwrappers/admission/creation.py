"""What an API server would refuse of the object of a component, and what would keep it from starting. Pure.

Facts: seen on kube-apiserver 1.37. It refuses `resourceVersion`, and takes `uid`, `creationTimestamp`, `generation`,
`managedFields` and `status` without using them, so that these are let through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from app.appwrappers.podsets.inference import pod_sets_of
from app.appwrappers.podsets.paths import found_at
from app.kinds.name_syntax import check_metadata
from app.kinds.shapes import ShapeError, decode_metadata
from app.numbers import shown
from app.text import quoted, several
from app.wire import JSON

_CLUSTER_SCOPED = {
    "": ("Namespace", "Node", "PersistentVolume", "ComponentStatus"),
    "admissionregistration.k8s.io": None,
    "apiextensions.k8s.io": None,
    "apiregistration.k8s.io": None,
    "certificates.k8s.io": ("CertificateSigningRequest", "ClusterTrustBundle"),
    "flowcontrol.apiserver.k8s.io": None,
    "networking.k8s.io": ("IngressClass", "IPAddress", "ServiceCIDR"),
    "node.k8s.io": None,
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding"),
    "resource.k8s.io": ("DeviceClass", "ResourceSlice", "DeviceTaintRule"),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"),
    "kueue.x-k8s.io": (
        "ClusterQueue",
        "ResourceFlavor",
        "AdmissionCheck",
        "WorkloadPriorityClass",
        "Cohort",
        "Topology",
    ),
}
"""Built-in kinds without a namespace, and Kueue's; None for all of a group. Discovery says it of the others."""
_LABEL_NAMES = (("", "Service"), ("", "Namespace"), ("apps", "StatefulSet"))
_PATH_NAMES = "rbac.authorization.k8s.io"
_JOB_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")


class _Stop(NamedTuple):
    """A value that keeps the controller of a kind from making Pods, by its path in the object."""

    path: str
    then: str = "is suspended"


_SUSPEND, _RUN_POLICY = _Stop("template.spec.suspend"), _Stop("template.spec.runPolicy.suspend")
_STOPS: dict[tuple[str, str], _Stop] = {
    ("batch", "Job"): _SUSPEND,
    ("batch", "CronJob"): _SUSPEND,
    ("jobset.x-k8s.io", "JobSet"): _SUSPEND,
    ("trainer.kubeflow.org", "TrainJob"): _SUSPEND,
    ("ray.io", "RayCluster"): _SUSPEND,
    ("ray.io", "RayJob"): _SUSPEND,
    ("ray.io", "RayCronJob"): _SUSPEND,
    ("ray.io", "RayService"): _Stop("template.spec.rayClusterConfig.suspend"),
    ("apps", "Deployment"): _Stop("template.spec.paused", "is paused"),
    ("argoproj.io", "Workflow"): _SUSPEND,
    ("sparkoperator.k8s.io", "SparkApplication"): _SUSPEND,
    **{
        ("kubeflow.org", kind): _RUN_POLICY
        for kind in ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob")
    },
}


def identity_of(template: JSON) -> tuple[str, str, str] | None:
    """Group, kind and name, which one object of a namespace has; None where the name is given later."""
    name = (template.get("metadata") or {}).get("name")
    return (_group(template), template["kind"], name) if name else None


def creation_problems(template: JSON, path: str) -> Iterator[str]:
    """Why the object cannot be created, each with the field. The metadata has been checked for its shape."""
    group, kind, metadata = _group(template), template["kind"], template["metadata"]
    kinds = _CLUSTER_SCOPED.get(group, ())
    if kinds is None or kind in kinds:
        yield no_namespace(kind, path)
    version = metadata.get("resourceVersion")
    if version not in (None, "", "0"):
        yield (
            f"{path}.metadata.resourceVersion: an API server refuses it for objects to be created: leave it out, "
            f"got {quoted(str(version))}"
        )
    yield from _metadata_problems(group, kind, metadata, path)
    if (group, kind) == ("batch", "Job"):
        yield from _job_problems(template, path)
    elif group == "apps":
        yield from _selector_problems(template, path)


def no_namespace(kind: str, path: str) -> str:
    """The problem of a kind without namespaces."""
    return f"{path}.kind: want a kind whose objects are in namespaces, got {quoted(kind)}: create it by itself"


def creation_warnings(component: JSON, path: str) -> Iterator[str]:
    """What would keep the object from making its Pods, and what is not used."""
    template = component["template"]
    stop = _STOPS.get((_group(template), template["kind"]))
    if stop is not None and found_at(template, stop.path) is True:
        yield (
            f"{path}.{stop.path}: the {template['kind']} {stop.then} and makes no Pods until this is false, and "
            "neither Berth nor Kueue changes it: leave it out (the AppWrapper has spec.suspend)"
        )
    yield from _surplus_infos(component, path)


def _surplus_infos(component: JSON, path: str) -> Iterator[str]:
    """A warning where there are more podSetInfos than podSets."""
    infos = component.get("podSetInfos")
    wanted = len(pod_sets_of(component))
    if isinstance(infos, list) and len(infos) > wanted:
        counts = f"{len(infos)} for {several(wanted, 'podSet')}"
        yield f"{path}.podSetInfos: {counts}: those after the first {wanted} are not used"


def _group(template: JSON) -> str:
    return str(template["apiVersion"]).rpartition("/")[0]


def _quoted(value: Any) -> str:
    return quoted(value if isinstance(value, str) else shown(value))


def _metadata_problems(group: str, kind: str, metadata: JSON, path: str) -> Iterator[str]:
    rule = "label" if (group, kind) in _LABEL_NAMES else "path" if group == _PATH_NAMES else "subdomain"
    # Of the version all is said.
    named = {"name": "given", **{field: one for field, one in metadata.items() if field != "resourceVersion"}}
    named["name"] = named["name"] or "given"
    labels = named.get("labels")
    if isinstance(labels, dict):  # numbers are written as texts
        named = {**named, "labels": {key: one if isinstance(one, str) else shown(one) for key, one in labels.items()}}
    try:
        decoded, _ = decode_metadata(kind, "v1", named)
    except ShapeError as error:
        field = error.field.removeprefix("metadata").removeprefix(".")
        yield f"{path}.metadata{'.' if field else ''}{field}: {error.fault}"
        return
    for problem in check_metadata(decoded, namespaced=True, name_rule=rule, free_finalizers=not _is_built_in(group)):
        yield f"{path}.{problem}"


def _is_built_in(group: str) -> bool:
    return "." not in group or group.endswith(".k8s.io")


def _job_problems(template: JSON, path: str) -> Iterator[str]:
    """What an exported Job has, and what a template of Pods leaves to its default."""
    spec = template.get("spec")
    pods = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(pods, dict):
        return
    if not spec.get("manualSelector"):
        if spec.get("selector"):
            yield f"{path}.spec.selector: a Job gets it when it is created: leave it out, or set manualSelector"
        labels = (pods.get("metadata") or {}).get("labels") if isinstance(pods.get("metadata"), dict) else None
        for label in _JOB_LABELS:
            if isinstance(labels, dict) and label in labels:
                yield f"{path}.spec.template.metadata.labels[{label}]: a Job writes it: leave it out"
    policy = pods["spec"].get("restartPolicy") if isinstance(pods.get("spec"), dict) else "Never"
    if policy not in ("Never", "OnFailure"):
        yield f"{path}.spec.template.spec.restartPolicy: want Never or OnFailure in a Job, got {_quoted(policy)}"


def _selector_problems(template: JSON, path: str) -> Iterator[str]:
    """A Deployment, StatefulSet, ReplicaSet or DaemonSet whose selector does not match its own Pods."""
    spec = template.get("spec")
    if not isinstance(spec, dict) or "template" not in spec:
        return
    selector, pods = spec.get("selector"), spec["template"]
    wanted = selector.get("matchLabels") if isinstance(selector, dict) else None
    metadata = pods.get("metadata") if isinstance(pods, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    for key, value in (wanted or {}).items() if isinstance(wanted, dict) else ():
        if not isinstance(labels, dict) or labels.get(key) != value:
            yield (
                f"{path}.spec.selector.matchLabels[{key}]: the Pod template has not this label: want "
                f"{_quoted(value)} in spec.template.metadata.labels"
            )
