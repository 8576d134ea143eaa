"""Objects of built-in kinds, each with the fields that an API server refuses.

A real kube-apiserver 1.37 has said it, and says it again in `tests/integration/sandbox/test_object_cases.py`. Neighbors
that are right have no fields. `NO_FIELD` is refused as a whole: it cannot be decoded, or needs what is not there.

`object_cases.jsonl` has one more case a line: a form, what is put into it, and the fields below that.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.appwrappers.admission.components import component_problems

JSON = dict[str, Any]
NO_FIELD = "refused as a whole"
LABELS = {"app": "a"}
CONTAINER = {"name": "c", "image": "i"}
INDEXED = {"completionMode": "Indexed", "completions": 3}
RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}


def pod(spec: JSON | None = None, **fields: Any) -> JSON:
    return _object("v1", "Pod", {"containers": [CONTAINER], **fields} if spec is None else spec)


def container(**fields: Any) -> JSON:
    """A Pod with one container that has these fields."""
    return pod(containers=[{name: value for name, value in {**CONTAINER, **fields}.items() if value is not None}])


def job(pod_spec: JSON | None = None, labels: JSON | None = None, name: str = "x", **spec: Any) -> JSON:
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER], **(pod_spec or {})}}
    template |= {"metadata": {"labels": labels}} if labels else {}
    return _object("batch/v1", "Job", {"template": template, **spec}, name)


def cron_job(job_spec: JSON | None = None, name: str = "x", **spec: Any) -> JSON:
    template = {"spec": job()["spec"] | (job_spec or {})}
    return _object("batch/v1", "CronJob", {"schedule": "@daily", "jobTemplate": template, **spec}, name)


def failing(*rules: JSON, **spec: Any) -> JSON:
    return job(podFailurePolicy={"rules": list(rules)}, **spec)


def succeeding(*rules: JSON, **spec: Any) -> JSON:
    return job(successPolicy={"rules": list(rules)}, **INDEXED | spec)


def endless(kind: str, pod_spec: JSON | None = None, name: str = "x", **spec: Any) -> JSON:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet; a field that is None is left out."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER], **(pod_spec or {})}}
    whole = {"selector": {"matchLabels": LABELS}, "template": template, **spec}
    return _object("apps/v1", kind, {field: value for field, value in whole.items() if value is not None}, name)


def deployment(pod_spec: JSON | None = None, **spec: Any) -> JSON:
    return endless("Deployment", pod_spec, **spec)


def stateful_set(pod_spec: JSON | None = None, **spec: Any) -> JSON:
    return endless("StatefulSet", pod_spec, **spec)


def daemon_set(pod_spec: JSON | None = None, **spec: Any) -> JSON:
    return endless("DaemonSet", pod_spec, **spec)


def _object(api_version: str, kind: str, spec: JSON, name: str = "x") -> JSON:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def named(kind: str, name: str, **fields: Any) -> JSON:
    """An object that has a name and little else."""
    versions = {"Role": "rbac.authorization.k8s.io/v1", "PodDisruptionBudget": "policy/v1"}
    return {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": {"name": name}, **fields}


def refused_fields(obj: JSON) -> set[str]:
    """The fields of an object for which an AppWrapper with it, and a Pod beside it, is refused."""
    components = [{"template": obj}, {"template": _object("v1", "Pod", {"containers": [CONTAINER]}, "beside")}]
    problems = component_problems({"components": components}, name="aw", namespace="ns", most=18)
    return {problem.partition(": ")[0].removeprefix("spec.components[0].template.") for problem in problems}


def _claim_template(template: JSON) -> JSON:
    return pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}])


_DIRECTORIES = [{"name": "d", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "a"}}]
_CLAIM_KIND = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "x"}}
FORMS: dict[str, tuple[Callable[[Any], JSON], str]] = {
    "volume": (
        lambda source: pod(serviceAccountName="a", volumes=[{"name": "v", **source}]),
        "spec.volumes[0]",
    ),
    "claim template": (_claim_template, "spec.volumes[0].ephemeral.volumeClaimTemplate"),
    "claim of a set": (
        lambda spec: stateful_set(volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": spec}]),
        "spec.volumeClaimTemplates[0].spec",
    ),
    "claim": (lambda spec: {**_CLAIM_KIND, "spec": spec}, "spec"),
    "variable": (
        lambda variable: pod(volumes=_DIRECTORIES, containers=[{**CONTAINER, "env": [variable]}]),
        "spec.containers[0].env[0]",
    ),
    "variables": (lambda bulk: container(envFrom=[bulk]), "spec.containers[0].envFrom"),
    "pod": (lambda spec: pod(**spec), "spec"),
    "container": (lambda fields: container(**fields), "spec.containers[0]"),
    "annotations": (
        lambda annotations: {**pod(), "metadata": {"name": "x", "annotations": annotations}},
        "metadata.annotations",
    ),
    "cron job": (lambda spec: cron_job(**spec), "spec"),
    "template": (deployment, "spec.template.spec"),
    "autoscaler": (lambda spec: _object("autoscaling/v2", "HorizontalPodAutoscaler", spec), "spec"),
    "ingress": (lambda spec: _object("networking.k8s.io/v1", "Ingress", spec), "spec"),
    "limit": (lambda limit: _object("v1", "LimitRange", {"limits": [limit]}), "spec.limits[0]"),
    "object": (lambda obj: obj, ""),
}
"""What builds an object around a value, and the path of the value in it."""


def _read_cases() -> list[tuple[JSON, str]]:
    cases = []
    for line in Path(__file__).with_suffix(".jsonl").read_text().splitlines():
        form, value, fields = json.loads(line)
        build, path = FORMS[form]
        absolute = [field if not path else path if field == "." else f"{path}{field}" for field in fields.split()]
        cases.append((build(value), NO_FIELD if fields == "NO_FIELD" else " ".join(absolute)))
    return cases


_PORT = {"ports": [{"port": 80}]}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_DOCKER = {"type": "kubernetes.io/dockerconfigjson"}
CASES: list[tuple[JSON, str]] = [
    # An empty text is as none where the type of Go is no pointer.
    (pod(restartPolicy="", dnsPolicy="", schedulerName=""), ""),
    (container(imagePullPolicy="", terminationMessagePolicy="", terminationMessagePath=""), ""),
    (container(ports=[{"containerPort": 80, "protocol": ""}]), ""),
    (container(livenessProbe={"httpGet": {"port": 80, "scheme": ""}}), ""),
    (container(restartPolicy=""), "spec.containers[0].restartPolicy"),
    (deployment(strategy={"type": ""}), ""),
    (stateful_set(podManagementPolicy="", updateStrategy={"type": ""}), ""),
    (stateful_set(persistentVolumeClaimRetentionPolicy={"whenDeleted": "", "whenScaled": ""}), ""),
    (stateful_set(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"}), ""),
    (daemon_set(updateStrategy={"type": ""}), ""),
    (cron_job(concurrencyPolicy=""), ""),
    (job({"restartPolicy": ""}), "spec.template.spec.restartPolicy"),
    (named("Service", "x", spec={**_PORT, "type": "", "sessionAffinity": ""}), ""),
    (named("Secret", "x", type=""), ""),
    # What a selector, a name, a policy or a volume may be.
    (job(selector={"matchLabels": {"job-name": "x"}}), ""),
    (job(selector={"matchLabels": {"batch.kubernetes.io/job-name": "x"}}), ""),
    (job(selector={"matchExpressions": [{"key": "job-name", "operator": "Exists"}]}), ""),
    (
        job(selector={"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}),
        "spec.selector spec.template.metadata.labels",
    ),
    (job(name="a" * 63), ""),
    (job(name="a" * 64), "spec.template.labels"),
    (stateful_set(updateStrategy={"type": "Recreate"}), "spec.updateStrategy"),
    (
        stateful_set(volumeClaimTemplates=[{"spec": _CLAIM}]),
        "spec.template.spec.volumes[0].name spec.template.spec.volumes[0].persistentVolumeClaim.claimName",
    ),
    (stateful_set(volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": _CLAIM}]), ""),
    (container(restartPolicy="always"), "spec.containers[0].restartPolicy"),
    (
        pod(initContainers=[{"name": "i", "image": "i", "restartPolicy": "always"}]),
        "spec.initContainers[0].restartPolicy",
    ),
    (pod(initContainers=[{"name": "i", "image": "i", "restartPolicy": "Always"}]), ""),
    (named("Secret", "x", data={".dockerconfigjson": b64encode(b'{"auths":{"\xff":1}}').decode()}, **_DOCKER), ""),
    (named("Secret", "x", data={".dockerconfigjson": b64encode(b'{"a":"\\ud800"}').decode()}, **_DOCKER), ""),
    (named("Secret", "x", data={".dockerconfigjson": b64encode(b"null").decode()}, **_DOCKER), ""),
    (named("Secret", "x", data={".dockerconfigjson": b64encode(b"[]").decode()}, **_DOCKER), "data[.dockerconfigjson]"),
    # Texts where numbers belong, and the like.
    (job(parallelism="2"), NO_FIELD),
    (job(completions=1.5), NO_FIELD),
    (job(suspend="true"), NO_FIELD),
    (job(backoffLimit=2**31), NO_FIELD),
    (job(backoffLimit=2**31 - 1), ""),
    (deployment(replicas="3"), NO_FIELD),
    (deployment(replicas=3), ""),
    (deployment(selector="app=a"), NO_FIELD),
    (stateful_set(replicas=[1]), NO_FIELD),
    (container(ports=[{"containerPort": "80"}]), NO_FIELD),
    (container(ports=[{"containerPort": 80}]), ""),
    (pod(priority="high"), NO_FIELD),
    (pod(terminationGracePeriodSeconds="30"), NO_FIELD),
    (pod(nodeSelector={"a": 1}), NO_FIELD),
    (container(resources={"limits": {"cpu": "one"}}), NO_FIELD),
    (container(env=[{"name": "A", "value": 1}]), NO_FIELD),
    (container(command="sleep 1"), NO_FIELD),
    (cron_job(suspend="no"), NO_FIELD),
    (cron_job({"parallelism": "1"}), NO_FIELD),
    (named("Service", "x", spec={"ports": [{"port": "80"}]}), NO_FIELD),
    (named("ConfigMap", "x", data={"a": 1}), NO_FIELD),
    (named("ConfigMap", "x", data={"a": "1"}), ""),
    (named("Secret", "x", data={"a": "not base64"}), NO_FIELD),
    (named("Role", "x", rules={"verbs": ["get"]}), NO_FIELD),
    # Selectors.
    (deployment(selector=None), "spec.selector spec.template.metadata.labels"),
    (endless("ReplicaSet", selector=None), "spec.selector spec.template.metadata.labels"),
    (stateful_set(selector=None), "spec.selector spec.template.metadata.labels"),
    (daemon_set(selector=None), "spec.template.metadata.labels"),
    *(
        (endless(kind, selector={}), "spec.selector")
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    ),
    *(
        (endless(kind, selector={"matchLabels": {"app": "b"}}), "spec.template.metadata.labels")
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    ),
    (deployment(selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}), ""),
    (deployment(selector={"matchExpressions": [{"key": "b", "operator": "Exists"}]}), "spec.template.metadata.labels"),
    (
        deployment(selector={"matchExpressions": [{"key": "app", "operator": "Is"}]}),
        "spec.selector spec.selector.matchExpressions[0].operator",
    ),
    (deployment(selector={"matchLabels": {"app": "a b"}}), "spec.selector spec.selector.matchLabels"),
    (job(selector={"matchLabels": {"a": "b"}}), "spec.selector spec.template.metadata.labels"),
    (job(selector={}), ""),
    (job(manualSelector=True), "spec.selector spec.template.metadata.labels"),
    (job(manualSelector=True, selector={"matchLabels": LABELS}, labels=LABELS), ""),
    (job(manualSelector=True, selector={"matchLabels": LABELS}), "spec.template.metadata.labels"),
    (job(labels={"controller-uid": "u"}), "spec.template.metadata.labels[controller-uid]"),
    (
        job(labels={"batch.kubernetes.io/controller-uid": "u"}),
        "spec.template.metadata.labels spec.template.metadata.labels[batch.kubernetes.io/controller-uid]",
    ),
    (job(labels={"job-name": "y"}), "spec.template.metadata.labels[job-name]"),
    (job(labels={"job-name": "x", "batch.kubernetes.io/job-name": "x"}), ""),
    (cron_job({"selector": {"matchLabels": LABELS}}), "spec.jobTemplate.spec.selector"),
    (cron_job({"manualSelector": True}), "spec.jobTemplate.spec.manualSelector"),
    # Whether Pods are restarted.
    (job({"restartPolicy": None}), "spec.template.spec.restartPolicy"),
    (job({"restartPolicy": "Always"}), "spec.template.spec.restartPolicy"),
    (job({"restartPolicy": "OnFailure"}), ""),
    (job({"restartPolicy": "never"}), "spec.template.spec.restartPolicy"),
    (
        cron_job({"template": {"spec": {"containers": [CONTAINER]}}}),
        "spec.jobTemplate.spec.template.spec.restartPolicy",
    ),
    *(
        (endless(kind, {"restartPolicy": "Never"}), "spec.template.spec.restartPolicy")
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    ),
    *(
        (endless(kind, {"restartPolicy": "Always"}), "")
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    ),
    (deployment({"activeDeadlineSeconds": 5}), "spec.template.spec.activeDeadlineSeconds"),
    (pod(restartPolicy="Sometimes"), "spec.restartPolicy"),
    # Containers.
    (pod({}), "spec.containers"),
    (pod({"containers": []}), "spec.containers"),
    (pod({"containers": None}), "spec.containers"),
    (_object("batch/v1", "Job", {}), "spec.template.spec.containers spec.template.spec.restartPolicy"),
    (container(name=None), "spec.containers[0].name"),
    (container(image=None), "spec.containers[0].image"),
    (container(image=""), "spec.containers[0].image"),
    (container(image=" i"), "spec.containers[0].image"),
    (container(name="A"), "spec.containers[0].name"),
    (container(name="c" * 64), "spec.containers[0].name"),
    (container(name="c" * 63), ""),
    (container(name="1c"), ""),
    (pod(containers=[CONTAINER, CONTAINER]), "spec.containers[1].name"),
    (pod(initContainers=[CONTAINER]), "spec.initContainers[0].name"),
    (job({"containers": [CONTAINER, CONTAINER]}), "spec.template.spec.containers[1].name"),
    (deployment({"containers": [{"name": "c"}]}), "spec.template.spec.containers[0].image"),
    (container(ports=[{"containerPort": 0}]), "spec.containers[0].ports[0].containerPort"),
    (container(ports=[{"containerPort": 65536}]), "spec.containers[0].ports[0].containerPort"),
    (container(ports=[{"containerPort": 80, "protocol": "tcp"}]), "spec.containers[0].ports[0].protocol"),
    (
        container(ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]),
        "spec.containers[0].ports[1].name",
    ),
    (container(env=[{"name": ""}]), "spec.containers[0].env[0].name"),
    (container(env=[{"name": "A=B"}]), "spec.containers[0].env[0].name"),
    (
        container(env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        "spec.containers[0].env[0].valueFrom",
    ),
    (container(volumeMounts=[{"name": "v", "mountPath": "/v"}]), "spec.containers[0].volumeMounts[0].name"),
    (container(imagePullPolicy="Sometimes"), "spec.containers[0].imagePullPolicy"),
    (container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}), "spec.containers[0].resources.requests"),
    (container(resources={"requests": {"cpu": "-1"}}), "spec.containers[0].resources.requests[cpu]"),
    (container(resources={"requests": {"a.b/c": "1"}}), "spec.containers[0].resources.limits"),
    (
        container(resources={"limits": {"a.b/c": "1.5"}}),
        "spec.containers[0].resources.limits[a.b/c] spec.containers[0].resources.requests[a.b/c]",
    ),
    (
        container(resources={"limits": {"gpus": "1"}}),
        "spec.containers[0].resources.limits[gpus] spec.containers[0].resources.requests[gpus]",
    ),
    (container(livenessProbe={}), "spec.containers[0].livenessProbe"),
    (
        container(livenessProbe={"exec": {"command": ["a"]}, "httpGet": {"port": 1}}),
        "spec.containers[0].livenessProbe.httpGet",
    ),
    (
        container(readinessProbe={"exec": {"command": ["a"]}, "periodSeconds": -1}),
        "spec.containers[0].readinessProbe.periodSeconds",
    ),
    (container(restartPolicy="Always"), ""),
    (pod(initContainers=[{"name": "i", "image": "i", "restartPolicy": "Always"}]), ""),
    (pod(initContainers=[{"name": "i", "image": "i", "restartPolicy": "Never"}]), ""),
    (
        pod(initContainers=[{"name": "i", "image": "i", "livenessProbe": {"exec": {"command": ["a"]}}}]),
        "spec.initContainers[0].livenessProbe",
    ),
    # The Pod.
    (pod(volumes=[{"name": "v"}, {"name": "v"}]), "spec.volumes[1].name"),
    (pod(volumes=[{"name": "v", "emptyDir": {}, "configMap": {"name": "a"}}]), "spec.volumes[0].configMap"),
    (pod(volumes=[{"name": "v", "configMap": {}}]), "spec.volumes[0].configMap.name"),
    (pod(volumes=[{"name": "v", "hostPath": {"path": "../a"}}]), "spec.volumes[0].hostPath.path"),
    (pod(dnsPolicy="None"), "spec.dnsConfig"),
    (pod(hostname="A_B"), "spec.hostname"),
    (pod(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds"),
    (pod(tolerations=[{"key": "a", "operator": "Equals"}]), "spec.tolerations[0].operator"),
    (pod(tolerations=[{"operator": "Equal", "value": "a"}]), "spec.tolerations[0].operator"),
    (pod(nodeSelector={"a b": "c"}), "spec.nodeSelector"),
    (pod(schedulingGates=[{"name": "example.com/a"}], nodeName="n"), "spec.nodeName"),
    (pod(schedulingGates=[{"name": "a"}, {"name": "a"}]), "spec.schedulingGates[1]"),
    (pod(schedulingGates=[{"name": "a"}]), ""),
    (pod(schedulerName="another"), ""),
    (pod(ephemeralContainers=[{"name": "e", "image": "i"}]), "spec.ephemeralContainers"),
    (deployment({"ephemeralContainers": [{"name": "e", "image": "i"}]}), "spec.template.spec.ephemeralContainers"),
    (pod(resourceClaims=[{"name": "a"}]), "spec.resourceClaims[0]"),
    (
        pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]),
        "spec.topologySpreadConstraints[0].maxSkew",
    ),
    (pod(securityContext={"runAsUser": -1}), "spec.securityContext.runAsUser"),
    (pod(terminationGracePeriodSeconds=-1), ""),
    (pod(serviceAccountName="A"), "spec.serviceAccountName"),
    (pod(priorityClassName="A"), NO_FIELD),
    (pod(hostAliases=[{"ip": "1.2.3"}]), "spec.hostAliases[0].ip"),
    (pod(imagePullSecrets=[{"name": ""}]), ""),
    (pod(os={"name": "plan9"}), "spec.os"),
    # Numbers of Jobs.
    *(
        (job(**{field: -1}), f"spec.{field}")
        for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    ),
    (job(parallelism=0, completions=0, backoffLimit=0, ttlSecondsAfterFinished=0, activeDeadlineSeconds=0), ""),
    (job(completionMode="Indexed"), ""),
    (job(completionMode="Indexed", parallelism=2), "spec.completions"),
    (job(**INDEXED), ""),
    (job(completionMode="indexed"), "spec.completionMode"),
    (job(**INDEXED, parallelism=100_001), "spec.parallelism"),
    (job(parallelism=100_001), ""),
    (job(name="x" * 61, **INDEXED), ""),
    (job(name="x" * 62, **INDEXED), "metadata.name"),
    (job(name="a.b", **INDEXED), "metadata.name"),
    (job(name="a.b"), ""),
    (job(backoffLimitPerIndex=1), "spec.backoffLimitPerIndex"),
    (job(backoffLimitPerIndex=1, **INDEXED), ""),
    (job(backoffLimitPerIndex=-1, **INDEXED), "spec.backoffLimitPerIndex"),
    (job(maxFailedIndexes=1, **INDEXED), "spec.backoffLimitPerIndex"),
    (job(maxFailedIndexes=1), "spec.backoffLimitPerIndex spec.maxFailedIndexes"),
    (job(maxFailedIndexes=1, backoffLimitPerIndex=1, **INDEXED), ""),
    (job(maxFailedIndexes=4, backoffLimitPerIndex=1, **INDEXED), "spec.maxFailedIndexes"),
    (job(maxFailedIndexes=-1, backoffLimitPerIndex=1, **INDEXED), "spec.maxFailedIndexes"),
    (job(**INDEXED | {"completions": 100_001}, backoffLimitPerIndex=1), "spec.maxFailedIndexes"),
    (
        job(**INDEXED | {"completions": 100_001}, backoffLimitPerIndex=1, maxFailedIndexes=10, parallelism=10_001),
        "spec.parallelism",
    ),
    (job(**INDEXED | {"completions": 100_001}, backoffLimitPerIndex=1, maxFailedIndexes=10, parallelism=10), ""),
    # Policies of Jobs.
    (job(podReplacementPolicy="Failed"), ""),
    (job(podReplacementPolicy="Always"), "spec.podReplacementPolicy"),
    (failing(RULE), ""),
    (failing(), ""),
    (failing(RULE, podReplacementPolicy="Failed"), ""),
    (failing(RULE, podReplacementPolicy="TerminatingOrFailed"), "spec.podReplacementPolicy"),
    (failing(RULE, pod_spec={"restartPolicy": "OnFailure"}), "spec.template.spec.restartPolicy"),
    (failing(RULE | {"action": ""}), "spec.podFailurePolicy.rules[0].action"),
    (failing(RULE | {"action": "Fail"}), "spec.podFailurePolicy.rules[0].action"),
    (failing(RULE | {"action": "FailIndex"}), "spec.podFailurePolicy.rules[0].action"),
    (failing(RULE | {"action": "FailIndex"}, backoffLimitPerIndex=1, **INDEXED), ""),
    (failing({"action": "Ignore"}), "spec.podFailurePolicy.rules[0]"),
    (failing({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}), ""),
    (failing({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}), ""),
    (
        failing({"action": "Ignore", "onPodConditions": [{"type": "A b", "status": "yes"}]}),
        "spec.podFailurePolicy.rules[0].onPodConditions[0].status spec.podFailurePolicy.rules[0].onPodConditions[0].type",
    ),
    (
        failing(RULE | {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}),
        "spec.podFailurePolicy.rules[0]",
    ),
    (
        failing({"action": "Count", "onExitCodes": {"operator": "In", "values": [0]}}),
        "spec.podFailurePolicy.rules[0].onExitCodes.values[0]",
    ),
    (failing({"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0]}}), ""),
    (
        failing({"action": "Count", "onExitCodes": {"operator": "In", "values": [2, 1]}}),
        "spec.podFailurePolicy.rules[0].onExitCodes.values",
    ),
    (
        failing({"action": "Count", "onExitCodes": {"operator": "In", "values": [1, 1]}}),
        "spec.podFailurePolicy.rules[0].onExitCodes.values[1]",
    ),
    (
        failing({"action": "Count", "onExitCodes": {"operator": "In", "values": []}}),
        "spec.podFailurePolicy.rules[0].onExitCodes.values",
    ),
    (
        failing({"action": "Count", "onExitCodes": {"operator": "Equal", "values": [1]}}),
        "spec.podFailurePolicy.rules[0].onExitCodes.operator",
    ),
    (
        failing({"action": "Count", "onExitCodes": {"operator": "In", "values": [1], "containerName": "d"}}),
        "spec.podFailurePolicy.rules[0].onExitCodes.containerName",
    ),
    (failing({"action": "Count", "onExitCodes": {"operator": "In", "values": [1], "containerName": "c"}}), ""),
    (failing(*[RULE] * 21), "spec.podFailurePolicy.rules"),
    (failing(*[RULE] * 20), ""),
    (succeeding({"succeededCount": 1}), ""),
    (succeeding({"succeededIndexes": "0,2"}), ""),
    (succeeding({"succeededIndexes": "0-1", "succeededCount": 1}), ""),
    (succeeding({"succeededIndexes": "0-1", "succeededCount": 3}), "spec.successPolicy.rules[0].succeededCount"),
    (succeeding({"succeededIndexes": "0-3"}), "spec.successPolicy.rules[0].succeededIndexes"),
    (succeeding({"succeededIndexes": "1,0"}), "spec.successPolicy.rules[0].succeededIndexes"),
    (succeeding({"succeededIndexes": "1-1"}), "spec.successPolicy.rules[0].succeededIndexes"),
    (succeeding({"succeededIndexes": "a"}), "spec.successPolicy.rules[0].succeededIndexes"),
    (succeeding({"succeededIndexes": ""}), ""),
    (succeeding({"succeededCount": 4}), "spec.successPolicy.rules[0].succeededCount"),
    (succeeding({"succeededCount": -1}), "spec.successPolicy.rules[0].succeededCount"),
    (succeeding({}), "spec.successPolicy.rules[0]"),
    (succeeding(), "spec.successPolicy.rules"),
    (job(successPolicy={"rules": [{"succeededCount": 1}]}), "spec.successPolicy"),
    (job(managedBy="example.com/a"), ""),
    (job(managedBy="a"), "spec.managedBy"),
    (job(managedBy=""), "spec.managedBy"),
    (job(managedBy="A_B/a"), "spec.managedBy"),
    (job(managedBy="example.com/a b"), "spec.managedBy"),
    (job(managedBy=f"example.com/{'a' * 60}"), "spec.managedBy"),
    # CronJobs.
    (cron_job(name="x" * 52), ""),
    (cron_job(name="x" * 53), "metadata.name"),
    *(
        (cron_job(schedule=schedule), "")
        for schedule in (
            "*/5 * * * *",
            "0 0 * jan mon-fri",
            "1,2,30-40/5 1 1 1 ?",
            "@hourly",
            "@every 1h30m",
            "1/2 * * * *",
            "0 0 * * 0-6",
        )
    ),
    *(
        (cron_job(schedule=schedule), "spec.schedule")
        for schedule in (
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "0 24 * * *",
            "0 0 0 * *",
            "0 0 * 13 *",
            "0 0 * * 7",
            "-1 * * * *",
            "0 0 * foo *",
            "5-1 * * * *",
            "*/0 * * * *",
            "1/2/3 * * * *",
            "@reboot",
            "@every 1x",
            "TZ=UTC 0 0 * * *",
        )
    ),
    (cron_job(timeZone="Etc/UTC"), ""),
    (cron_job(timeZone=""), "spec.timeZone"),
    (cron_job(timeZone="Local"), "spec.timeZone"),
    (cron_job(timeZone="../etc"), "spec.timeZone"),
    (cron_job(concurrencyPolicy="Never"), "spec.concurrencyPolicy"),
    (cron_job(concurrencyPolicy="Forbid"), ""),
    (cron_job(startingDeadlineSeconds=-1), "spec.startingDeadlineSeconds"),
    (cron_job(successfulJobsHistoryLimit=-1), "spec.successfulJobsHistoryLimit"),
    (cron_job(failedJobsHistoryLimit=-1), "spec.failedJobsHistoryLimit"),
    (cron_job({"backoffLimit": -1}), "spec.jobTemplate.spec.backoffLimit"),
    # What has no end.
    (deployment(replicas=-1), "spec.replicas"),
    (deployment(strategy={"type": "Recreate"}), ""),
    (deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}), "spec.strategy.rollingUpdate"),
    (deployment(strategy={"type": "Blue"}), "spec.strategy"),
    (
        deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        "spec.strategy.rollingUpdate.maxUnavailable",
    ),
    (
        deployment(strategy={"rollingUpdate": {"maxSurge": "150%", "maxUnavailable": "101%"}}),
        "spec.strategy.rollingUpdate.maxUnavailable",
    ),
    (deployment(strategy={"rollingUpdate": {"maxSurge": "1.5%"}}), "spec.strategy.rollingUpdate.maxSurge"),
    (deployment(strategy={"rollingUpdate": {"maxSurge": -1}}), "spec.strategy.rollingUpdate.maxSurge"),
    (deployment(minReadySeconds=-1), "spec.minReadySeconds"),
    (deployment(progressDeadlineSeconds=5, minReadySeconds=5), "spec.progressDeadlineSeconds"),
    (deployment(progressDeadlineSeconds=-1), "spec.progressDeadlineSeconds"),
    (deployment(revisionHistoryLimit=-1), "spec.revisionHistoryLimit"),
    (endless("ReplicaSet", replicas=-1, minReadySeconds=-1), "spec.minReadySeconds spec.replicas"),
    (stateful_set(replicas=-1, minReadySeconds=-1), "spec.minReadySeconds spec.replicas"),
    (stateful_set(podManagementPolicy="Parallel"), ""),
    (stateful_set(podManagementPolicy="Fast"), "spec.podManagementPolicy"),
    (stateful_set(updateStrategy={"type": "OnDelete"}), ""),
    (
        stateful_set(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
        "spec.updateStrategy.rollingUpdate",
    ),
    (stateful_set(updateStrategy={"type": "Blue"}), "spec.updateStrategy"),
    (stateful_set(updateStrategy={"rollingUpdate": {"partition": -1}}), "spec.updateStrategy.rollingUpdate.partition"),
    (
        stateful_set(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Keep"}),
        "spec.persistentVolumeClaimRetentionPolicy.whenDeleted",
    ),
    (stateful_set(ordinals={"start": -1}), "spec.ordinals.start"),
    (stateful_set(serviceName="A"), "spec.serviceName"),
    (stateful_set(name="a.b"), "metadata.name"),
    (stateful_set({"hostname": "A_B"}), ""),
    (deployment(name="a.b"), ""),
    (deployment(name="A"), "metadata.name"),
    (
        stateful_set(
            {"containers": [CONTAINER | {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            volumeClaimTemplates=[
                {
                    "metadata": {"name": "v"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        ),
        "",
    ),
    (daemon_set(minReadySeconds=-1), "spec.minReadySeconds"),
    (daemon_set(updateStrategy={"type": "Blue"}), "spec.updateStrategy"),
    (
        daemon_set(updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}),
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
    ),
    (daemon_set({"activeDeadlineSeconds": 5}), "spec.template.spec.activeDeadlineSeconds"),
    (deployment({"nodeSelector": {"a b": "c"}}), "spec.template.spec.nodeSelector"),
    (
        endless(
            "Deployment", template={"metadata": {"labels": LABELS | {"b c": "d"}}, "spec": {"containers": [CONTAINER]}}
        ),
        "spec.template.labels",
    ),
    # Names.
    (named("ConfigMap", "A"), "metadata.name"),
    (named("ConfigMap", "a.b"), ""),
    (named("ConfigMap", "x" * 253), ""),
    (named("ConfigMap", "x" * 254), "metadata.name"),
    (named("Service", "a.b", spec=_PORT), "metadata.name"),
    (named("Service", "1a", spec=_PORT), ""),
    (named("Service", "s" * 64, spec=_PORT), "metadata.name"),
    (named("Service", "s", spec=_PORT), ""),
    (named("ServiceAccount", "A"), "metadata.name"),
    (named("Role", "system:a"), ""),
    (named("Role", "a/b"), "metadata.name"),
    (named("PodDisruptionBudget", "a_b", spec={"minAvailable": 1}), ""),
    (named("Secret", "a", type="kubernetes.io/tls"), "data[tls.crt] data[tls.key]"),
    (named("ConfigMap", "a", data={"a/b": "c"}), "data[a/b]"),
]
CASES += _read_cases()
