"""What the API server fills in when an object is decoded: Pods first of all, and what shares their template.

Runs before admission and again after webhooks have patched. Changes the object in place; adds, never overrides. The
OpenAPI of Kubernetes does not have these defaults.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from app.kinds import claims
from app.kinds.claims import drop_empty
from app.kinds.requests import filled_requests
from app.kinds.shapes import Shape, fields_of
from app.kube.quantity import canonical
from app.wire import JSON

_MILLI = 3
_MODE = {"defaultMode": 0o644}
_CONTAINER = {"resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_WEBHOOK = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_ROLLING = {"type": "RollingUpdate"}
_RBAC = "rbac.authorization.k8s.io"
_DAEMON_COUNTS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_NODE_INFO = (
    "machineID systemUUID bootID kernelVersion osImage containerRuntimeVersion kubeletVersion kubeProxyVersion "
    "operatingSystem architecture"
)
_BY_TYPE: dict[str, JSON] = {
    **{kind: {"spec": {}, "status": {}} for kind in ("Pod", "Deployment", "Job", "CronJob", "Namespace", "Node")},
    "PodTemplateSpec": {"metadata": {}, "spec": {}},
    "PodSpec": {
        "containers": [],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    "Container": _CONTAINER,
    "EphemeralContainer": _CONTAINER,
    "ContainerPort": {"protocol": "TCP"},
    "Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "GRPCAction": {"service": ""},
    "ConfigMapVolumeSource": _MODE,
    "SecretVolumeSource": _MODE,
    "DownwardAPIVolumeSource": _MODE,
    "ProjectedVolumeSource": _MODE,
    "ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "HostPathVolumeSource": {"type": ""},
    "ISCSIVolumeSource": {"iscsiInterface": "default"},
    "RBDVolumeSource": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "AzureDiskVolumeSource": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "ScaleIOVolumeSource": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "PersistentVolumeClaim": {"spec": {}, "status": {}},
    "PersistentVolumeClaimStatus": {"phase": "Pending"},
    "PersistentVolumeClaimTemplate": {"metadata": {}, "spec": {}},
    "PersistentVolumeClaimSpec": {"volumeMode": "Filesystem", "resources": {}},
    "ObjectFieldSelector": {"apiVersion": "v1"},
    "ResourceFieldSelector": {"divisor": "0"},
    "DeploymentSpec": {
        "replicas": 1,
        "template": {},
        "strategy": {},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    },
    "DeploymentStrategy": _ROLLING,
    "RollingUpdateDeployment": {"maxUnavailable": "25%", "maxSurge": "25%"},
    "ReplicaSet": {"spec": {}, "status": {"replicas": 0}},
    "ReplicaSetSpec": {"replicas": 1, "template": {}},
    "ReplicationController": {"spec": {}, "status": {"replicas": 0}},
    "ReplicationControllerSpec": {"replicas": 1},
    "PodTemplate": {"template": {}},
    "LimitRange": {"spec": {}},
    "Ingress": {"spec": {}, "status": {"loadBalancer": {}}},
    "HorizontalPodAutoscaler": {"spec": {}},
    "autoscaling.v1.HorizontalPodAutoscaler": {"spec": {}},
    "DaemonSet": {"spec": {}, "status": dict.fromkeys(_DAEMON_COUNTS, 0)},
    "DaemonSetSpec": {"template": {}, "updateStrategy": {}, "revisionHistoryLimit": 10},
    "DaemonSetUpdateStrategy": _ROLLING,
    "RollingUpdateDaemonSet": {"maxUnavailable": 1, "maxSurge": 0},
    "StatefulSet": {"spec": {}, "status": {"replicas": 0, "availableReplicas": 0}},
    "StatefulSetSpec": {
        "replicas": 1,
        "template": {},
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {},
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {},
    },
    "StatefulSetUpdateStrategy": _ROLLING,
    "StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    "RollingUpdateStatefulSetStrategy": {"partition": 0},
    "JobSpec": {
        "template": {},
        "completionMode": "NonIndexed",
        "suspend": False,
    },
    "PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
    "CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {},
    },
    "JobTemplateSpec": {"spec": {}},
    "Service": {"spec": {}, "status": {"loadBalancer": {}}},
    "ServiceSpec": {"type": "ClusterIP", "sessionAffinity": "None"},
    "ServicePort": {"protocol": "TCP"},
    "Secret": {"type": "Opaque"},
    "NodeStatus": {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": dict.fromkeys(_NODE_INFO.split(), ""),
    },
    "ContainerImage": {"names": None},
    "AttachedVolume": {"name": "", "devicePath": ""},
    "NodeAddress": {"type": "", "address": ""},
    "PodCondition": dict.fromkeys(("lastProbeTime", "lastTransitionTime")),
    "ContainerStatus": {
        "name": "",
        "state": {},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    },
    "ContainerStateRunning": {"startedAt": None},
    "ContainerStateTerminated": {"exitCode": 0, "startedAt": None, "finishedAt": None},
    "Event": {
        **dict.fromkeys(("eventTime", "firstTimestamp", "lastTimestamp")),
        "source": {},
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "NodeCondition": dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime")),
    "NamespaceStatus": {"phase": "Active"},
    "NamespaceCondition": {"lastTransitionTime": None},
    "DeploymentCondition": dict.fromkeys(("lastUpdateTime", "lastTransitionTime")),
    "ReplicaSetCondition": {"lastTransitionTime": None},
    "DaemonSetCondition": {"lastTransitionTime": None},
    "StatefulSetCondition": {"lastTransitionTime": None},
    "JobCondition": dict.fromkeys(("lastProbeTime", "lastTransitionTime")),
    "MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": "Never"},
    "ValidatingWebhook": _WEBHOOK,
    "RuleWithOperations": {"scope": "*"},
    "ServiceReference": {"port": 443},
    "RoleBinding": {"roleRef": {}},
    "ClusterRoleBinding": {"roleRef": {}},
    "RoleRef": {"apiGroup": _RBAC},
    "CustomResourceDefinition": {"spec": {}},
    "CustomResourceDefinitionSpec": {"names": {}, "conversion": {}},
    "CustomResourceConversion": {"strategy": "None"},
    "PriorityClass": {"value": 0, "preemptionPolicy": "PreemptLowerPriority"},
    **claims.BY_TYPE,
}


_UNSET_WHERE_EMPTY = frozenset({
    "allocationMode", "apiGroup", "apiVersion", "concurrencyPolicy", "dnsPolicy", "imagePullPolicy", "operator",
    "phase", "podManagementPolicy", "protocol", "pullPolicy", "restartPolicy", "scheme", "schedulerName",
    "sessionAffinity", "status", "terminationMessagePath", "terminationMessagePolicy", "type", "whenDeleted",
    "whenScaled",
})  # fmt: skip
"""Texts that are no pointers in Go: an empty one is as none, which charts write for values that are not given."""


def _is_unset(kind: str, obj: JSON, field: str) -> bool:
    value = obj.get(field)
    return field not in obj or (value == "" and field in _UNSET_WHERE_EMPTY) or (kind == "Probe" and value == 0)


def apply_builtin_defaults(kind: str, obj: JSON) -> None:
    """Fill in the defaults of a built-in kind."""
    for field, value in _BY_TYPE.get(kind, {}).items():
        if _is_unset(kind, obj, field):
            obj[field] = deepcopy(value)
    if kind in _DERIVED:
        for field, value in _DERIVED[kind](obj).items():
            if _is_unset(kind, obj, field):
                obj[field] = value
    if kind in _REWRITTEN:
        _REWRITTEN[kind](obj)
    fields = fields_of(kind)
    for field, value in obj.items():
        shape = fields.get(field)
        inner = (
            shape[0] if isinstance(shape, list) else shape["*"] if isinstance(shape, dict) and "*" in shape else shape
        )
        if isinstance(inner, str) and inner[0].isupper():
            for item in _items(value, shape):
                apply_builtin_defaults(inner, item)


def _items(value: Any, shape: Shape) -> Iterable[JSON]:
    """The objects in a field: of a list, of a map, or the one that it holds."""
    if isinstance(shape, list):
        return value or ()
    return value.values() if isinstance(shape, dict) else (value,)


def _pull_policy(reference: str | None) -> str:
    """`Always` for the tag `latest`, said or implied; a digest or any other tag is pulled if it is not present."""
    image, at, _ = (reference or "").partition("@")
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if not at and tag in ("", "latest") else "IfNotPresent"


def _rolling(strategy: JSON) -> JSON:
    return {"rollingUpdate": {}} if strategy["type"] == "RollingUpdate" else {}


def _service_addresses(spec: JSON) -> JSON:
    if spec["type"] == "ExternalName":
        return {}
    return {"internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}


def _counts(job: JSON) -> JSON:
    limit = 6 if job.get("backoffLimitPerIndex") is None else 2**31 - 1
    completions = {} if job.keys() & {"completions", "parallelism"} else {"completions": 1}
    replaced = "Failed" if "podFailurePolicy" in job else "TerminatingOrFailed"
    return {**completions, "parallelism": 1, "backoffLimit": limit, "podReplacementPolicy": replaced}


def _container_limits(limit: JSON) -> JSON:
    """What a container has that says nothing: the largest limit, and as request the limit, else the least."""
    if limit.get("type") != "Container":
        return {}
    default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
    return {"default": default, "defaultRequest": request}


_DERIVED: dict[str, Callable[[JSON], JSON]] = {
    "Container": lambda container: {"imagePullPolicy": _pull_policy(container.get("image"))},
    "EphemeralContainer": lambda container: {"imagePullPolicy": _pull_policy(container.get("image"))},
    "ImageVolumeSource": lambda volume: {"pullPolicy": _pull_policy(volume.get("reference"))},
    "Volume": lambda volume: {} if volume.keys() - {"name"} else {"emptyDir": {}},
    "DeploymentStrategy": _rolling,
    "DaemonSetUpdateStrategy": _rolling,
    "StatefulSetUpdateStrategy": _rolling,
    "JobSpec": _counts,
    **claims.DERIVED,
    "ServiceSpec": _service_addresses,
    "ServicePort": lambda port: {"targetPort": port["port"]} if "port" in port else {},
    "NodeStatus": lambda status: {"allocatable": dict(status["capacity"])} if status.get("capacity") else {},
    "Subject": lambda subject: {"apiGroup": _RBAC} if subject.get("kind") in ("User", "Group") else {},
}
"""Defaults that depend on other fields: what is added where it is missing."""


def _pod(pod: JSON) -> None:
    """What a template leaves to the Pods that are made of it."""
    spec = pod["spec"]
    spec.setdefault("enableServiceLinks", True)
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = filled_requests(resources)
        for port in (container.get("ports") or []) if spec.get("hostNetwork") else ():
            if port.get("containerPort"):
                port.setdefault("hostPort", port["containerPort"])


def _pod_spec(spec: JSON) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if resources := spec.get("resources"):
        _resources(resources)
    drop_empty(spec, "nodeSelector", "tolerations", "volumes", "initContainers", "imagePullSecrets", "overhead")


def _container(container: JSON) -> None:
    drop_empty(container, "command", "args", "env", "envFrom", "ports", "volumeMounts")
    _resources(container["resources"])


def _resources(resources: JSON) -> None:
    drop_empty(resources, "limits", "requests")
    for field in resources.keys() & {"limits", "requests"}:
        resources[field] = {name: canonical(value, _MILLI) for name, value in resources[field].items()}


def _secret(obj: JSON) -> None:
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        data.update({name: base64.b64encode(value.encode()).decode() for name, value in plain.items()})


def _namespace(obj: JSON) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _definition(spec: JSON) -> None:
    names = spec["names"]
    kind = names.get("kind") or ""
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.pop("preserveUnknownFields", None)


_REWRITTEN: dict[str, Callable[[JSON], None]] = {
    "LimitRangeItem": lambda limit: limit.update(_container_limits(limit)),
    "Pod": _pod,
    "PodSpec": _pod_spec,
    "Container": _container,
    "EphemeralContainer": _container,
    "EnvVar": lambda variable: drop_empty(variable, "value"),
    "Secret": _secret,
    "Namespace": _namespace,
    "CustomResourceDefinitionSpec": _definition,
    **claims.REWRITTEN,
}
"""Defaults that change a field that is there, or a field of an inner object."""
