"""What the API server fills in when an object is decoded: Pods first of all, and what shares their template.

Runs before admission and again after webhooks have patched. Changes the object in place; adds, never overrides. The
OpenAPI of Kubernetes does not have these defaults.
"""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import TYPE_CHECKING

from app.kinds.tables import fields_of
from app.kube.quantity import canonical

if TYPE_CHECKING:
    from collections.abc import Callable

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
    "Pod": {"spec": {}, "status": {}},
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
    "ObjectFieldSelector": {"apiVersion": "v1"},
    "ResourceFieldSelector": {"divisor": "0"},
    "Deployment": {"spec": {}, "status": {}},
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
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    },
    "StatefulSetUpdateStrategy": _ROLLING,
    "RollingUpdateStatefulSetStrategy": {"partition": 0},
    "Job": {"spec": {}, "status": {}},
    "JobSpec": {
        "template": {},
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    },
    "CronJob": {"spec": {}, "status": {}},
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
    "Namespace": {"spec": {}, "status": {}},
    "Node": {"spec": {}, "status": {}},
    "NodeStatus": {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": dict.fromkeys(_NODE_INFO.split(), ""),
    },
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
}


def apply_builtin_defaults(kind: str, obj: JSON) -> None:
    """Fill in the defaults of a built-in kind."""
    for field, value in _BY_TYPE.get(kind, {}).items():
        if field not in obj:
            obj[field] = deepcopy(value)
    if kind in _COMPUTED:
        _COMPUTED[kind](obj)
    fields = fields_of(kind)
    for field, value in obj.items():
        shape = fields.get(field)
        inner = shape[0] if isinstance(shape, list) else shape
        if isinstance(inner, str) and inner[0].isupper():
            for item in value if isinstance(shape, list) else (value,):
                apply_builtin_defaults(inner, item)


def default_image_pull_policy(image: str) -> str:
    """`Always` for the tag `latest`, said or implied; a digest or any other tag is pulled if it is not present."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _pod(pod: JSON) -> None:
    pod["spec"].setdefault("enableServiceLinks", True)  # a template leaves it to the Pods made from it


def _pod_spec(spec: JSON) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if spec.get("hostNetwork"):
        for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
            for port in container.get("ports") or []:
                if port.get("containerPort"):
                    port.setdefault("hostPort", port["containerPort"])
    _drop_empty(spec, "nodeSelector", "tolerations", "volumes", "initContainers", "imagePullSecrets", "overhead")


def _container(container: JSON) -> None:
    container.setdefault("imagePullPolicy", default_image_pull_policy(container.get("image") or ""))
    _drop_empty(container, "command", "args", "env", "envFrom", "ports", "volumeMounts")
    resources = container["resources"]
    _drop_empty(resources, "limits", "requests")
    for field in resources.keys() & {"limits", "requests"}:
        resources[field] = {name: canonical(value, _MILLI) for name, value in resources[field].items()}
    if "limits" in resources:
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def _variable(entry: JSON) -> None:
    if entry.get("value") == "":
        del entry["value"]


def _drop_empty(holder: JSON, *names: str) -> None:
    """Empty lists and maps are absent, as everywhere in the API."""
    for name in names:
        if name in holder and not holder[name]:
            del holder[name]


def _volume(volume: JSON) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}


def _strategy(strategy: JSON) -> None:
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {})


def _job_spec(spec: JSON) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)


def _service_spec(spec: JSON) -> None:
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")


def _service_port(port: JSON) -> None:
    if "port" in port:
        port.setdefault("targetPort", port["port"])


def _secret(obj: JSON) -> None:
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        data.update({name: base64.b64encode(value.encode()).decode() for name, value in plain.items()})


def _namespace(obj: JSON) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _node_status(status: JSON) -> None:
    if status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def _subject(subject: JSON) -> None:
    if subject.get("kind") in ("User", "Group"):
        subject.setdefault("apiGroup", _RBAC)


def _definition(spec: JSON) -> None:
    names = spec["names"]
    kind = names.get("kind") or ""
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.pop("preserveUnknownFields", None)


_COMPUTED: dict[str, Callable[[JSON], None]] = {
    "Pod": _pod,
    "PodSpec": _pod_spec,
    "Container": _container,
    "EphemeralContainer": _container,
    "EnvVar": _variable,
    "Volume": _volume,
    "DeploymentStrategy": _strategy,
    "DaemonSetUpdateStrategy": _strategy,
    "StatefulSetUpdateStrategy": _strategy,
    "JobSpec": _job_spec,
    "ServiceSpec": _service_spec,
    "ServicePort": _service_port,
    "Secret": _secret,
    "Namespace": _namespace,
    "NodeStatus": _node_status,
    "Subject": _subject,
    "CustomResourceDefinitionSpec": _definition,
}
