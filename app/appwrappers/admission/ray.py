"""What KubeRay refuses of its objects once they are created: a RayJob fails, the others make no Pods. Pure.

Facts: KubeRay 1.6.2 with its usual feature gates (`utils/validation.go`), after the defaults of its definitions.
Left to it are whether `runtimeEnvYAML` is YAML, and the annotation for the time in which a RayService may initialize.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from app.appwrappers.admission.names import GENERATED
from app.appwrappers.podsets.paths import elements_at, found_at
from app.kinds.fielderrors import MOST_FAULTS
from app.kinds.name_syntax import dns1035_faults, label_value_faults, qualified_faults
from app.kinds.schedules import schedule_faults
from app.numbers import is_whole, shown, worded
from app.pace import step
from app.text import quoted
from app.wire import JSON, mapping

_LONGEST = {"RayCluster": 53, "RayJob": 47, "RayService": 47}
"""Characters of a name, so that those of what is made of it are no label too long."""
_CLUSTERS = {
    "RayCluster": "spec",
    "RayJob": "spec.rayClusterSpec",
    "RayService": "spec.rayClusterConfig",
    "RayCronJob": "spec.jobTemplate.rayClusterSpec",
}
_JOBS = {"RayJob": "spec", "RayCronJob": "spec.jobTemplate"}
_FT, _NAMESPACE = "ray.io/ft-enabled", "ray.io/external-storage-namespace"
_REDIS, _PASSWORD, _USER, _V2 = "RAY_REDIS_ADDRESS", "REDIS_PASSWORD", "REDIS_USERNAME", "RAY_enable_autoscaler_v2"
_ASKED = ("num-cpus", "num-gpus", "memory", "resources")
_ON = ("1", "true")
_OF_CLUSTER, _TTL = "ray.io/cluster", "ttlSecondsAfterFinished"
_LEAST = {_TTL: 0, "backoffLimit": 0, "activeDeadlineSeconds": 1, "preRunningDeadlineSeconds": 1}
_ALL = 100
_UPGRADE_BOUNDS = (("maxSurgePercent", 0, _ALL), ("stepSizePercent", 0, _ALL), ("intervalSeconds", 1, 2**31))
_VERSION = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)+).*", re.ASCII)
"""As `ParseGeneric` of k8s.io/apimachinery: what follows the numbers has no meaning, numbers that are missing are 0."""
_GATE = "the Ray autoscaler"


class _Cluster(NamedTuple):
    """The spec of a RayCluster at `path` in the wrapped object, `metadata` of which has its annotations."""

    template: JSON
    path: str
    annotations: Mapping[str, Any]

    def at(self, path: str) -> Any:
        return _found(self.template, f"{self.path}.{path}")

    @property
    def groups(self) -> list[str]:
        return _elements(self.template, f"{self.path}.workerGroupSpecs")

    @property
    def environment(self) -> dict[str, Any]:
        """The variables of the container of Ray in the head Pod."""
        variables = self.at("headGroupSpec.template.spec.containers[0].env")
        named = [item for item in variables if isinstance(item, dict)] if isinstance(variables, list) else []
        return {str(item.get("name")): item.get("value") for item in named}

    @property
    def scales(self) -> bool:
        return self.at("enableInTreeAutoscaling") is True


def ray_problems(template: JSON, path: str) -> Iterator[str]:
    """Why KubeRay would refuse a wrapped object of its kinds, which stands at `path`; nothing for other objects."""
    kind = template["kind"]
    if str(template["apiVersion"]).partition("/")[0] != "ray.io" or kind not in _CLUSTERS:
        return
    # A RayCronJob is validated by its RayJob, which has none.
    annotations = template["metadata"].get("annotations") if kind != "RayCronJob" else None
    cluster = _Cluster(template, _CLUSTERS[kind], mapping(annotations))
    yield from islice(_problems(template, path, cluster), MOST_FAULTS)


def _problems(template: JSON, path: str, cluster: _Cluster) -> Iterator[str]:
    kind = template["kind"]
    yield from (f"{path}.{problem}" for problem in _name(kind, template["metadata"]))
    faults = [_job(template, _JOBS[kind]), _deletion(template, _JOBS[kind])] if kind in _JOBS else []
    if isinstance(_found(template, cluster.path), dict):
        faults += [_groups(cluster), _redis(cluster), _scaling(cluster), _access(cluster, kind)]
    if kind == "RayService":
        faults.append(_service(template))
    elif kind == "RayCronJob":
        schedule = _found(template, "spec.schedule")
        faults.append(f"spec.schedule: {fault}" for fault in schedule_faults(schedule if _text(schedule) else ""))
    yield from (f"{path}.{problem}" for problems in faults for problem in problems)


def _name(kind: str, metadata: JSON) -> Iterator[str]:
    if kind not in _LONGEST:
        return
    field, most = "name", _LONGEST[kind]
    if not metadata.get("name"):
        field, most = "generateName", most - len(GENERATED)
    name = metadata.get(field) or "given"
    if len(name) > most:
        fits = f"{quoted(name[:most])} fits"
        yield f"metadata.{field}: want at most {most} characters in a {kind}, got {len(name)}: {fits}"
    for fault in dns1035_faults(name if field == "name" else f"{name[:most]}x"):
        yield f"metadata.{field}: {fault}, got {quoted(name)}"


def _groups(cluster: _Cluster) -> Iterator[str]:
    """The head group, and those of workers."""
    yield from _group(cluster, f"{cluster.path}.headGroupSpec")
    scales_by_idle_time = cluster.at("autoscalerOptions.version") == "v2" or cluster.environment.get(_V2) in _ON
    for group in cluster.groups:
        step()
        counts = {name: _found(cluster.template, f"{group}.{name}") for name in ("minReplicas", "maxReplicas")}
        for name in (*counts, "replicas", "numOfHosts", "idleTimeoutSeconds"):
            yield from _at_least(cluster.template, f"{group}.{name}", 0)
        least, most = counts.values()
        if is_whole(least) and is_whole(most) and least > most:
            yield f"{group}.minReplicas: want at most maxReplicas, {most}, got {least}"
        yield from _group(cluster, group)
        if _found(cluster.template, f"{group}.idleTimeoutSeconds") is not None and not scales_by_idle_time:
            version = f"{cluster.path}.autoscalerOptions.version"
            yield f"{group}.idleTimeoutSeconds: want {version} v2 with it, or leave it out"
        if cluster.scales and _found(cluster.template, f"{group}.suspend") is True:
            yield f"{group}.suspend: no worker group can be suspended with {_GATE}: want false, or no autoscaler"


def _group(cluster: _Cluster, path: str) -> Iterator[str]:
    parameters, resources, labels = (
        mapping(_found(cluster.template, f"{path}.{field}")) for field in ("rayStartParams", "resources", "labels")
    )
    if resources and any(parameters.get(name) for name in _ASKED):
        yield f"{path}.resources: want resources here or in rayStartParams, not in both"
    if "labels" in parameters:
        yield f"{path}.rayStartParams.labels: put them into {path}.labels"
    count = 0
    for key, value in labels.items():
        step()
        for fault in (*qualified_faults(key), *(label_value_faults(value) if _text(value) else ())):
            yield f"{path}.labels: {quoted(key)}: {fault}"
            count += 1
        if count > MOST_FAULTS:
            return


def _redis(cluster: _Cluster) -> Iterator[str]:
    """Fault tolerance: its options, and what older versions read instead of them."""
    options, head = f"{cluster.path}.gcsFaultToleranceOptions", f"{cluster.path}.headGroupSpec"
    variables = f"{head}.template.spec.containers[0].env"
    given = cluster.at("gcsFaultToleranceOptions") is not None
    parameters, environment = mapping(cluster.at("headGroupSpec.rayStartParams")), cluster.environment
    annotation = str(cluster.annotations.get(_FT) or "")
    if annotation and given:
        yield f"{options}: want it or the annotation {_FT}, not both"
    if not given and annotation.lower() != "true" and _REDIS in environment:
        yield f"{variables}: {_REDIS} turns fault tolerance on: want {options} beside it"
    if given and parameters.get("redis-password"):
        yield f"{head}.rayStartParams.redis-password: put it into {options}.redisPassword"
    for name, field in ((_PASSWORD, "redisPassword"), (_REDIS, "redisAddress")):
        if given and name in environment:
            yield f"{variables}: put {name} into {options}.{field}"
    if given and cluster.annotations.get(_NAMESPACE):
        yield f"metadata.annotations[{_NAMESPACE}]: put it into {options}.externalStorageNamespace"
    if parameters.get("redis-username") or _USER in environment:
        yield f"{head}: put the user name for Redis into {options}.redisUsername"


def _scaling(cluster: _Cluster) -> Iterator[str]:
    variables = f"{cluster.path}.headGroupSpec.template.spec.containers[0].env"
    version, variable = cluster.at("autoscalerOptions.version"), cluster.environment.get(_V2)
    if not cluster.scales and variable in _ON:
        yield f"{variables}: {_V2} needs {cluster.path}.enableInTreeAutoscaling: want true there, or leave it out"
    if cluster.scales and version is not None and _V2 in cluster.environment:
        yield f"{variables}: want autoscalerOptions.version or {_V2}, not both"
    for path in (f"{cluster.path}.headGroupSpec", *cluster.groups) if cluster.scales and version == "v2" else ():
        yield from _never(cluster.template, path, "with the autoscaler v2")
    yield from _at_least(cluster.template, f"{cluster.path}.autoscalerOptions.idleTimeoutSeconds", 0)


def _access(cluster: _Cluster, kind: str) -> Iterator[str]:
    """Tokens, and how a cluster is upgraded."""
    options = f"{cluster.path}.authOptions"
    by_kubernetes = cluster.at("authOptions.enableK8sTokenAuth") is True
    if by_kubernetes and kind != "RayCluster":
        yield f"{options}.enableK8sTokenAuth: want it in a RayCluster alone: leave it out"
    elif by_kubernetes and cluster.at("authOptions.mode") != "token":
        yield f"{options}.enableK8sTokenAuth: want mode token with it"
    elif by_kubernetes and cluster.at("authOptions.secretName"):
        yield f"{options}.secretName: want it or enableK8sTokenAuth, not both"
    if cluster.at("authOptions.mode") == "token":
        least = (2, 55, 0) if by_kubernetes else (2, 52, 0)
        version = cluster.at("rayVersion")
        match = _VERSION.fullmatch(version) if _text(version) and len(version) < 64 else None
        numbers = [int(part) for part in match[1].split(".")] if match else []
        if (*numbers, 0, 0, 0)[: max(3, len(numbers))] < least:
            text, got = ".".join(map(str, least)), quoted(worded(version))
            yield f"{cluster.path}.rayVersion: want {text} or newer with authOptions, got {got}"
    if kind == "RayCluster" and cluster.at("upgradeStrategy.type") not in (None, "Recreate", "None"):
        yield f"{cluster.path}.upgradeStrategy.type: want Recreate or None"


def _job(template: JSON, path: str) -> Iterator[str]:
    """A RayJob whose spec is at the path."""
    spec = mapping(_found(template, path))
    mode, retried = spec.get("submissionMode"), _positive(spec.get("backoffLimit"))
    for field, least in _LEAST.items():
        yield from _at_least(template, f"{path}.{field}", least)
    yield from _kept(spec, path)
    if spec.get("clusterSelector"):
        yield from _selected(spec, path, retried=retried)
    elif spec.get("rayClusterSpec") is None:
        yield f"{path}: want a rayClusterSpec, or a clusterSelector with the label {_OF_CLUSTER}"
    if retried and mode == "InteractiveMode":
        yield f"{path}.backoffLimit: want 0 with InteractiveMode, got {spec['backoffLimit']}"
    if mode == "SidecarMode":
        for field in spec.keys() & {"submitterPodTemplate", "submitterConfig"}:
            if spec[field] is not None:
                yield f"{path}.{field}: want none with SidecarMode: leave it out"
        yield from _never(template, f"{path}.rayClusterSpec.headGroupSpec", "with SidecarMode")


def _kept(spec: JSON, path: str) -> Iterator[str]:
    """What takes that the cluster is deleted when the job has ended."""
    if spec.get("shutdownAfterJobFinishes") is not True:
        for wrong, field in ((spec.get("suspend") is True, "suspend"), (_positive(spec.get(_TTL)), _TTL)):
            if wrong:
                yield f"{path}.{field}: want shutdownAfterJobFinishes true with it"


def _selected(spec: JSON, path: str, *, retried: bool) -> Iterator[str]:
    """A RayJob for a cluster that it does not make."""
    if not mapping(spec["clusterSelector"]).get(_OF_CLUSTER):
        yield f"{path}.clusterSelector: want the label {_OF_CLUSTER} with the name of a RayCluster"
    for wrong, field in ((spec.get("suspend") is True, "suspend"), (retried, "backoffLimit")):
        if wrong:
            yield f"{path}.{field}: want none with clusterSelector: leave it out"
    if spec.get("submissionMode") == "SidecarMode":
        yield f"{path}.submissionMode: want another than SidecarMode with clusterSelector"


def _deletion(template: JSON, path: str) -> Iterator[str]:
    """What is deleted when the job has ended: by rules, or by two policies."""
    shut = _found(template, f"{path}.shutdownAfterJobFinishes") is True
    selects = bool(_found(template, f"{path}.clusterSelector"))
    strategy = mapping(_found(template, f"{path}.deletionStrategy"))
    scales = _found(template, f"{path}.rayClusterSpec.enableInTreeAutoscaling") is True
    where = f"{path}.deletionStrategy"
    rules = _elements(template, f"{where}.deletionRules")
    if rules and shut:
        yield f"{where}.deletionRules: want no shutdownAfterJobFinishes beside it"
    policies = {f"{rule}.policy": _found(template, f"{rule}.policy") for rule in rules}
    for field in ("onSuccess", "onFailure") if strategy.keys() & {"onSuccess", "onFailure"} else ():
        policy = policies[f"{where}.{field}.policy"] = _found(template, f"{where}.{field}.policy")
        if policy is None:
            yield f"{where}.{field}.policy: want a policy in onSuccess and in onFailure"
        elif policy == "DeleteNone" and shut:
            yield f"{where}.{field}.policy: want another than DeleteNone with shutdownAfterJobFinishes"
    for place, policy in policies.items():
        step()
        if selects and policy in ("DeleteCluster", "DeleteWorkers"):
            yield f"{place}: want DeleteSelf or DeleteNone with clusterSelector, got {policy}"
        elif scales and policy == "DeleteWorkers":
            yield f"{place}: want another than DeleteWorkers with {_GATE}"
    yield from _rules(template, rules)


def _rules(template: JSON, rules: list[str]) -> Iterator[str]:
    """Each has one status and is alone for it; workers are not deleted after the cluster, nor that after the job."""
    times: dict[tuple[str, str], dict[str, int]] = {}
    for rule in rules:
        condition, policy = mapping(_found(template, f"{rule}.condition")), str(_found(template, f"{rule}.policy"))
        statuses = [
            (name, str(condition[name])) for name in ("jobStatus", "jobDeploymentStatus") if condition.get(name)
        ]
        yield from _at_least(template, f"{rule}.condition.ttlSeconds", 0)
        if len(statuses) != 1:
            yield f"{rule}.condition: want one of jobStatus and jobDeploymentStatus"
            continue
        ends = times.setdefault(statuses[0], {})
        if policy in ends:
            yield f"{rule}: another rule has {policy} for this status: want one"
        ttl = condition.get("ttlSeconds") or 0
        ends[policy] = ttl if is_whole(ttl) else 0
    for (_, status), ends in times.items():
        order = [ends[policy] for policy in ("DeleteWorkers", "DeleteCluster", "DeleteSelf") if policy in ends]
        if order != sorted(order):
            where = rules[0].rpartition("[")[0]
            policies = "DeleteWorkers, DeleteCluster and DeleteSelf"
            yield f"{where}: want ttlSeconds of {policies} that rise, for the status {quoted(status)}"


def _service(template: JSON) -> Iterator[str]:
    if _found(template, "spec.rayClusterConfig.headGroupSpec.headService.metadata.name"):
        yield "spec.rayClusterConfig.headGroupSpec.headService.metadata.name: KubeRay names it: leave it out"
    kinds = (None, "None", "NewCluster", "NewClusterWithIncrementalUpgrade")
    if _found(template, "spec.upgradeStrategy.type") not in kinds:
        yield "spec.upgradeStrategy.type: want NewCluster, NewClusterWithIncrementalUpgrade or None"
    yield from _at_least(template, "spec.rayClusterDeletionDelaySeconds", 0)


def upgrade_warnings(template: JSON, path: str) -> Iterator[str]:
    """What a RayService lacks for an incremental upgrade: KubeRay refuses it where its feature for these is on."""
    strategy = "spec.upgradeStrategy"
    of_ray = template["kind"] == "RayService" and str(template["apiVersion"]).startswith("ray.io/")
    if not of_ray or _found(template, f"{strategy}.type") != "NewClusterWithIncrementalUpgrade":
        return
    options = mapping(_found(template, f"{strategy}.clusterUpgradeOptions"))
    scaled = _found(template, "spec.rayClusterConfig.enableInTreeAutoscaling") is True
    problems = [] if scaled else ["spec.rayClusterConfig.enableInTreeAutoscaling: want true"]
    for field, least, most in _UPGRADE_BOUNDS:
        value: Any = options.get(field, _ALL if field == "maxSurgePercent" else None)
        if not (is_whole(value) and least <= value <= most):
            bounds = f"{least} to {most}" if most == _ALL else f"{least} or more"
            problems.append(f"{strategy}.clusterUpgradeOptions.{field}: want {bounds}, got {shown(value)}")
    if not options.get("gatewayClassName"):
        problems.append(f"{strategy}.clusterUpgradeOptions.gatewayClassName: want the name of a GatewayClass")
    for want in problems:
        yield f"{path}.{want}, or KubeRay refuses the incremental upgrade where RayServiceIncrementalUpgrade is on"


def _found(template: JSON, path: str) -> Any:
    return found_at(template, f"template.{path}")


def _elements(template: JSON, path: str) -> list[str]:
    return [element.removeprefix("template.") for element in elements_at(template, f"template.{path}")]


def _never(template: JSON, group: str, when: str) -> Iterator[str]:
    if _found(template, f"{group}.template.spec.restartPolicy") not in (None, "", "Never"):
        yield f"{group}.template.spec.restartPolicy: want Never, or nothing, {when}"


def _at_least(template: JSON, path: str, least: int) -> Iterator[str]:
    number = _found(template, path)
    if is_whole(number) and number < least:
        yield f"{path}: want {least} or more, got {shown(number)}"


def _positive(value: Any) -> bool:
    return is_whole(value) and bool(value > 0)


def _text(value: Any) -> bool:
    return isinstance(value, str)
