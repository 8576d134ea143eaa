"""What the API server fills in when an object is decoded: Pods first of all, and what shares their template.

Runs before admission and again after webhooks have patched. Changes the object in place; adds, never overrides.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from app.kube.quantity import canonical

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.wire import JSON

_FILE_MODE = 0o644
_MILLI = 3
_TOKEN_SECONDS = 3600
_NODE_INFO = [
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
]


def apply_builtin_defaults(kind: str, obj: JSON) -> None:
    """Fill in the defaults of a built-in kind."""
    defaulter = _BY_KIND.get(kind)
    if defaulter is not None:
        defaulter(obj)


def default_pod_spec(spec: JSON) -> None:
    """Defaults of a Pod's spec, in a Pod or in a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in _containers(spec):
        _default_container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or []:
        _default_volume(volume)
    _drop_empty(spec, ("nodeSelector", "tolerations", "volumes", "initContainers", "imagePullSecrets", "overhead"))


def default_image_pull_policy(image: str) -> str:
    """`Always` for the tag `latest`, said or implied; a digest or any other tag is pulled if it is not present."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _containers(spec: JSON) -> list[JSON]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def _default_container(container: JSON, *, host_network: bool) -> None:
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
        if host_network and port.get("containerPort"):
            port.setdefault("hostPort", port["containerPort"])
    for entry in container.get("env") or []:
        _default_references(entry.get("valueFrom") or {})
        if entry.get("value") == "":
            del entry["value"]
    _default_resources(container.setdefault("resources", {}))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _default_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _default_http_get(hook["httpGet"])
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", default_image_pull_policy(container.get("image") or ""))
    _drop_empty(container, ("command", "args", "env", "envFrom", "ports", "volumeMounts"))


def _default_resources(resources: JSON) -> None:
    _drop_empty(resources, ("limits", "requests"))
    for amounts in (resources.get("limits") or {}, resources.get("requests") or {}):
        for name, value in amounts.items():
            amounts[name] = canonical(value, _MILLI)
    if "limits" in resources:
        requests = resources.setdefault("requests", {})
        for name, value in resources["limits"].items():
            requests.setdefault(name, value)


def _drop_empty(holder: JSON, names: tuple[str, ...]) -> None:
    """Empty lists and maps are absent, as everywhere in the API."""
    for name in names:
        if name in holder and not holder[name]:
            del holder[name]


def _default_probe(probe: JSON) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        _default_http_get(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(action: JSON) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _default_volume(volume: JSON) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for name in ("configMap", "secret", "downwardAPI", "projected"):
        if name in volume:
            volume[name].setdefault("defaultMode", _FILE_MODE)
    _default_items(volume.get("downwardAPI"))
    for source in (volume.get("projected") or {}).get("sources") or []:
        _default_items(source.get("downwardAPI"))
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def _default_items(source: JSON | None) -> None:
    for item in (source or {}).get("items") or []:
        _default_references(item)


def _default_references(holder: JSON) -> None:
    if "fieldRef" in holder:
        holder["fieldRef"].setdefault("apiVersion", "v1")
    if "resourceFieldRef" in holder:
        holder["resourceFieldRef"].setdefault("divisor", "0")


def _default_pod(pod: JSON) -> None:
    default_pod_spec(pod.setdefault("spec", {}))
    pod["spec"].setdefault("enableServiceLinks", True)  # a template leaves it to the Pods made from it
    pod["spec"].setdefault("containers", [])
    pod.setdefault("status", {})


def _default_template(spec: JSON) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    inner = template.setdefault("spec", {})
    inner.setdefault("containers", [])
    default_pod_spec(inner)


def _default_deployment(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    obj.setdefault("status", {})


def _default_replica_set(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)
    obj.setdefault("status", {"replicas": 0})


def _default_daemon_set(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    _default_template(spec)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    obj.setdefault("status", dict.fromkeys(counts, 0))


def _default_stateful_set(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
    obj.setdefault("status", {"replicas": 0, "availableReplicas": 0})


def _default_job_spec(spec: JSON) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    _default_template(spec)


def _default_job(obj: JSON) -> None:
    _default_job_spec(obj.setdefault("spec", {}))
    obj.setdefault("status", {})


def _default_cron_job(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    _default_job_spec(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))
    obj.setdefault("status", {})


def _default_service(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        if "port" in port:
            port.setdefault("targetPort", port["port"])
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    obj.setdefault("status", {"loadBalancer": {}})


def _default_secret(obj: JSON) -> None:
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        data.update({name: base64.b64encode(value.encode()).decode() for name, value in plain.items()})


def _default_namespace(obj: JSON) -> None:
    obj.setdefault("spec", {})
    obj.setdefault("status", {})
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _default_node(obj: JSON) -> None:
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status.setdefault("nodeInfo", dict.fromkeys(_NODE_INFO, ""))
    if status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def _default_webhooks(obj: JSON) -> None:
    for hook in obj.get("webhooks") or []:
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        if obj.get("kind") == "MutatingWebhookConfiguration":
            hook.setdefault("reinvocationPolicy", "Never")
        for rule in hook.get("rules") or []:
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service:
            service.setdefault("port", 443)


def _default_binding(obj: JSON) -> None:
    group = "rbac.authorization.k8s.io"
    obj.setdefault("roleRef", {}).setdefault("apiGroup", group)
    for subject in obj.get("subjects") or []:
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", group)


def _default_crd(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {}).setdefault("strategy", "None")
    spec.pop("preserveUnknownFields", None)


def _default_priority_class(obj: JSON) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


_BY_KIND: dict[str, Callable[[JSON], None]] = {
    "Pod": _default_pod,
    "Deployment": _default_deployment,
    "ReplicaSet": _default_replica_set,
    "DaemonSet": _default_daemon_set,
    "StatefulSet": _default_stateful_set,
    "Job": _default_job,
    "CronJob": _default_cron_job,
    "Service": _default_service,
    "Secret": _default_secret,
    "Namespace": _default_namespace,
    "Node": _default_node,
    "MutatingWebhookConfiguration": _default_webhooks,
    "ValidatingWebhookConfiguration": _default_webhooks,
    "RoleBinding": _default_binding,
    "ClusterRoleBinding": _default_binding,
    "CustomResourceDefinition": _default_crd,
    "PriorityClass": _default_priority_class,
}
