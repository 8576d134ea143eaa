"""The columns of the built-in kinds, as the real API server prints them. Pure functions of one object and the clock.

A column named Age (or Created At) stands where it is listed; kinds without one get it after their narrow columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.devtools.sandbox.printing.capacitycolumns import (
    budget_bound,
    claim_state,
    quota_cells,
    volume_capacity,
    volume_class,
    volume_modes,
    volume_phase,
)
from app.devtools.sandbox.printing.durations import UNKNOWN, age, human_duration, parse_time
from app.devtools.sandbox.printing.networkcolumns import (
    endpoint_addresses,
    external_addresses,
    service_ports,
    slice_addresses,
    slice_ports,
)
from app.devtools.sandbox.printing.podcolumns import pod_ips, pod_ready, pod_restarts, pod_status, readiness_gates
from app.devtools.sandbox.printing.workloadcolumns import (
    NONE,
    container_cells,
    deployment_ready,
    job_completions,
    job_duration,
    job_status,
    last_schedule,
    revision_owner,
    shown_labels,
    shown_selector,
    template_of,
)
from app.wire import JSON

_Read = Callable[[JSON, float], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it is called and how to read its cell; priority 1 shows with `-o wide` alone."""

    name: str
    read: _Read
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    @property
    def definition(self) -> JSON:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }

    def cell(self, obj: JSON, now: float) -> Any:
        return self.read(obj, now)


def _get(obj: JSON, *path: str, default: Any = "") -> Any:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return default if value is None else value


def _at(*path: str, default: Any = "") -> _Read:
    return lambda obj, _: _get(obj, *path, default=default)


def _or_none(*path: str) -> _Read:
    return lambda obj, _: _get(obj, *path) or NONE


def _count(*path: str) -> _Read:
    return lambda obj, _: len(_get(obj, *path, default=()))


def _selector(obj: JSON, _: float) -> str:
    return shown_selector(_get(obj, "spec", "selector", default={}))


def _node_status(obj: JSON, _: float) -> str:
    ready = [c for c in _get(obj, "status", "conditions", default=[]) if c.get("type") == "Ready"]
    words = ["Ready" if c.get("status") == "True" else "NotReady" for c in ready] or ["Unknown"]
    return ",".join(words + (["SchedulingDisabled"] if _get(obj, "spec", "unschedulable") else []))


def _node_roles(obj: JSON, _: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = _get(obj, "metadata", "labels", default={})
    roles = {name.removeprefix(prefix) for name in labels if name.startswith(prefix) and name != prefix}
    roles |= {value for name, value in labels.items() if name == "kubernetes.io/role" and value}
    return ",".join(sorted(roles)) or NONE


def _address(kind: str) -> _Read:
    def read(obj: JSON, _: float) -> str:
        found = [a["address"] for a in _get(obj, "status", "addresses", default=[]) if a.get("type") == kind]
        return found[0] if found else NONE

    return read


def _info(name: str, default: str = UNKNOWN) -> _Read:
    return lambda obj, _: _get(obj, "status", "nodeInfo", name) or default


def _kernel(obj: JSON, _: float) -> str:
    info = _get(obj, "status", "nodeInfo", default={})
    version, architecture = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{version} ({architecture})" if architecture else str(version)


def _subjects(kind: str) -> _Read:
    def read(obj: JSON, _: float) -> str:
        found = [subject for subject in obj.get("subjects") or [] if subject.get("kind") == kind]
        names = [f"{s.get('namespace', '')}/{s['name']}" if kind == "ServiceAccount" else s["name"] for s in found]
        return ", ".join(names)

    return read


def _containers(field: str) -> _Read:
    return lambda obj, _: container_cells(obj, field)


def _versions(definition: JSON, _: float) -> str:
    versions = [version for version in _get(definition, "spec", "versions", default=[]) if version.get("served")]
    return ",".join(sorted(f"{one['name']}{'(storage)' if one.get('storage') else ''}" for one in versions))


def _is_established(definition: JSON, _: float) -> bool:
    conditions = _get(definition, "status", "conditions", default=[])
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _last_seen(obj: JSON, now: float) -> str:
    series = _get(obj, "series", default={})
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or first
    count = series.get("count") or obj.get("count") or 0
    if count > 1 and parse_time(first) is not None:
        return f"{age(last, now=now)} (x{count} over {human_duration(now - (parse_time(first) or now))})"
    return age(last, now=now)


def _first_seen(obj: JSON, now: float) -> str:
    return age(obj.get("firstTimestamp") or obj.get("eventTime"), now=now)


def _event_object(obj: JSON, _: float) -> str:
    involved = obj.get("involvedObject", {})
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _event_source(obj: JSON, _: float) -> str:
    source = obj.get("source", {})
    parts = (
        source.get("component") or obj.get("reportingComponent"),
        source.get("host") or obj.get("reportingInstance"),
    )
    return ", ".join(part for part in parts if part)


def _number(name: str, read: _Read, priority: int = 0) -> Column:
    return Column(name, read, type="integer", priority=priority)


def _truth(name: str, read: _Read, priority: int = 0) -> Column:
    return Column(name, read, type="boolean", priority=priority)


def _age(obj: JSON, now: float) -> str:
    return age(_get(obj, "metadata", "creationTimestamp"), now=now)


_DEPLOYMENT = [
    Column("Ready", deployment_ready),
    Column("Up-to-date", _at("status", "updatedReplicas", default=0)),
    Column("Available", _at("status", "availableReplicas", default=0)),
    Column("Containers", _containers("name"), priority=1),
    Column("Images", _containers("image"), priority=1),
    Column("Selector", _selector, priority=1),
]
_REPLICA_SET = [
    _number("Desired", _at("spec", "replicas", default=0)),
    _number("Current", _at("status", "replicas", default=0)),
    _number("Ready", _at("status", "readyReplicas", default=0)),
    *_DEPLOYMENT[3:],
]
_CREATED_AT = [Column("Created At", _at("metadata", "creationTimestamp", default=UNKNOWN), type="date")]
_BINDING = [
    Column("Role", lambda obj, _: f"{_get(obj, 'roleRef', 'kind')}/{_get(obj, 'roleRef', 'name')}"),
    Column("Users", _subjects("User"), priority=1),
    Column("Groups", _subjects("Group"), priority=1),
    Column("ServiceAccounts", _subjects("ServiceAccount"), priority=1),
]
_WEBHOOKS = [_number("Webhooks", _count("webhooks"))]

BUILT_IN: dict[str, list[Column]] = {
    "Pod": [
        Column("Ready", pod_ready),
        Column("Status", pod_status),
        Column("Restarts", pod_restarts),
        Column("IP", pod_ips, priority=1),
        Column("Node", _or_none("spec", "nodeName"), priority=1),
        Column("Nominated Node", _or_none("status", "nominatedNodeName"), priority=1),
        Column("Readiness Gates", readiness_gates, priority=1),
    ],
    "Node": [
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        Column("Age", _age),
        Column("Version", _info("kubeletVersion", "")),
        Column("Internal-IP", _address("InternalIP"), priority=1),
        Column("External-IP", _address("ExternalIP"), priority=1),
        Column("OS-Image", _info("osImage"), priority=1),
        Column("Kernel-Version", _kernel, priority=1),
        Column("Container-Runtime", _info("containerRuntimeVersion"), priority=1),
    ],
    "Namespace": [Column("Status", _at("status", "phase"))],
    "ConfigMap": [Column("Data", lambda obj, _: len(obj.get("data") or {}) + len(obj.get("binaryData") or {}))],
    "Secret": [
        Column("Type", _at("type", default="Opaque")),
        Column("Data", lambda obj, _: len(obj.get("data") or {})),
    ],
    "Service": [
        Column("Type", _at("spec", "type")),
        Column("Cluster-IP", _or_none("spec", "clusterIP")),
        Column("External-IP", external_addresses),
        Column("Port(s)", service_ports),
        Column("Selector", lambda obj, _: shown_labels(_get(obj, "spec", "selector", default={})), priority=1),
    ],
    "ServiceAccount": [],
    "Deployment": _DEPLOYMENT,
    "ReplicaSet": _REPLICA_SET,
    "StatefulSet": [Column("Ready", deployment_ready), *_DEPLOYMENT[3:5]],
    "DaemonSet": [
        _number("Desired", _at("status", "desiredNumberScheduled", default=0)),
        _number("Current", _at("status", "currentNumberScheduled", default=0)),
        _number("Ready", _at("status", "numberReady", default=0)),
        _number("Up-to-date", _at("status", "updatedNumberScheduled", default=0)),
        _number("Available", _at("status", "numberAvailable", default=0)),
        Column("Node Selector", lambda obj, _: shown_labels(template_of(obj).get("nodeSelector") or {})),
        *_DEPLOYMENT[3:],
    ],
    "ControllerRevision": [Column("Controller", revision_owner), Column("Revision", _at("revision", default=0))],
    "Job": [
        Column("Status", job_status),
        Column("Completions", job_completions),
        Column("Duration", job_duration),
        *_DEPLOYMENT[3:],
    ],
    "CronJob": [
        Column("Schedule", _at("spec", "schedule")),
        Column("Timezone", _or_none("spec", "timeZone")),
        _truth("Suspend", lambda obj, _: str(_get(obj, "spec", "suspend", default=False))),
        _number("Active", _count("status", "active")),
        Column("Last Schedule", last_schedule),
        *_DEPLOYMENT[3:5],
        Column(
            "Selector",
            lambda obj, _: shown_selector(_get(obj, "spec", "jobTemplate", "spec", "selector", default={})),
            priority=1,
        ),
    ],
    "Endpoints": [Column("Endpoints", endpoint_addresses)],
    "ResourceQuota": [Column("Request", quota_cells(limits=False)), Column("Limit", quota_cells(limits=True))],
    "PersistentVolumeClaim": [
        Column("Status", volume_phase),
        Column("Volume", _at("spec", "volumeName")),
        Column("Capacity", volume_capacity),
        Column("Access Modes", volume_modes),
        Column("StorageClass", volume_class),
        Column("VolumeAttributesClass", _at("spec", "volumeAttributesClassName", default="<unset>")),
        Column("VolumeMode", _at("spec", "volumeMode", default="<unset>"), priority=1),
    ],
    "PodDisruptionBudget": [
        Column("Min Available", budget_bound("minAvailable")),
        Column("Max Unavailable", budget_bound("maxUnavailable")),
        _number("Allowed Disruptions", _at("status", "disruptionsAllowed", default=0)),
    ],
    "NetworkPolicy": [
        Column("Pod-Selector", lambda obj, _: shown_selector(_get(obj, "spec", "podSelector", default={})))
    ],
    "PriorityClass": [
        _number("Value", _at("value", default=0)),
        _truth("Global-Default", _at("globalDefault", default=False)),
        Column("Age", _age),
        Column("PreemptionPolicy", _at("preemptionPolicy")),
    ],
    "Lease": [Column("Holder", _at("spec", "holderIdentity"))],
    "CustomResourceDefinition": [
        Column("Scope", _at("spec", "scope")),
        Column("Versions", _versions),
        *_CREATED_AT,
        Column("Group", _at("spec", "group"), priority=1),
        Column("Kind", _at("spec", "names", "kind"), priority=1),
        Column(
            "ShortNames",
            lambda obj, _: ",".join(_get(obj, "spec", "names", "shortNames", default=[])),
            priority=1,
        ),
        _truth("Established", _is_established, priority=1),
    ],
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "ResourceClaim": [Column("State", claim_state)],
    "ResourceSlice": [
        Column("Node", _at("spec", "nodeName")),
        Column("Driver", _at("spec", "driver")),
        Column("Pool", _at("spec", "pool", "name")),
    ],
    "EndpointSlice": [
        Column("AddressType", _at("addressType")),
        Column("Ports", slice_ports),
        Column("Endpoints", slice_addresses),
    ],
    "Role": _CREATED_AT,
    "ClusterRole": _CREATED_AT,
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "Event": [
        Column("Last Seen", _last_seen),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _event_object),
        Column("Subobject", _at("involvedObject", "fieldPath"), priority=1),
        Column("Source", _event_source, priority=1),
        Column("Message", lambda obj, _: str(obj.get("message") or obj.get("note") or "").strip()),
        Column("First Seen", _first_seen, priority=1),
        Column("Count", lambda obj, _: obj.get("count") or _get(obj, "series", "count", default=0) or 1, priority=1),
        Column("Name", _at("metadata", "name"), format="name", priority=1),
    ],
}
