"""Writes and reads the marks of companions: names, labels, annotations, and the value that the cache keeps.

A Pod whose marks cannot be read is not a companion, whatever its label says. The controller does not change or delete
it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any

import msgspec

from app.kube.conditions import condition, status_of
from app.kube.names import DNS_LABEL_LIMIT, shorten
from app.kube.resources import controller_of
from app.numbers import whole_or
from app.placement.model import DEFAULT_SCHEDULER, DPU_OF_HOST
from app.text import abridged, cut
from app.wire import JSON, encode_json, mapping
from app.workloads.model import (
    COMPANION,
    INJECTED,
    RULE,
    RULE_NAME,
    SPEC_HASH,
    TENANT_NAMESPACE_PREFIX,
    WORKLOAD,
    WORKLOAD_ID,
    ObjectKey,
    Policy,
    Rule,
    Workload,
    workload_name,
)
from app.workloads.templates.bounds import weight_of

_decode_names = msgspec.json.Decoder(list[str]).decode
_UNREADABLE = b"?"
_LEAST_STEM = 10
"""Characters of the shortest part that `shorten` can make."""
RUNS = ""
"""The standing of a Pod that runs and is ready."""
_LONGEST_STANDING = 64
"""Characters."""
_BEGINNING = ("ContainerCreating", "PodInitializing")
_CONTAINERS = ("initContainerStatuses", "containerStatuses")
_ENDED = ("exitCode", "reason", "message", "finishedAt")
_LONGEST_MESSAGE = 1000
"""Characters of a message that a tenant sees."""
_UNFIT = re.compile(
    r"\d+ (?:Insufficient [^\s,]*[^\s,.]|node\(s\) (?:were unschedulable|didn't match Pod's node affinity/selector))"
)
"""What a tenant may see of a scheduler's message. The rest may name taints, which name other tenants."""


@dataclass(frozen=True, slots=True)
class Companion:
    """A companion as it is in the infra cluster; `rule` and `workload` are the keys of the objects it exists for.

    `digest` stands for the injected annotations as they really are, `injected` for their names. `ending`: it is being
    deleted. `lost`: it failed by an eviction or with its node, and was not deleted. `intact`: the marks that people
    search by say the same as the others. `host` is that whose DPU it is for, None for one that may be on any. `bound`:
    it has a node. `queued`: the scheduler has not looked at it yet. `standing` is what keeps it from running. `weight`
    is what it counts for while it has no node. `size` is its bytes, about. `version` is the resource version that
    showed it so first, 0 where the server has none to compare.
    """

    namespace: str
    name: str
    uid: str
    rule: ObjectKey
    workload: ObjectKey
    spec_hash: str
    digest: bytes
    injected: tuple[str, ...]
    ending: bool = False
    lost: bool = False
    intact: bool = True
    host: str | None = None
    bound: bool = False
    queued: bool = False
    standing: str = ""
    weight: int = field(default=1, compare=False)
    size: int = field(default=0, compare=False)
    version: int = field(default=0, compare=False)

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name

    @property
    def of_admin(self) -> bool:
        """Whether it is outside of its workload's namespace, as those of the cloud admin's rules alone are."""
        return self.namespace != self.workload[0]


def host_of(annotations: Mapping[str, str]) -> str | None:
    """The host whose DPU a companion is for; None for one that was made by the policy Any."""
    host = annotations.get(DPU_OF_HOST)
    return host if host is None else intern(host)


def policy_of(host: str | None) -> Policy:
    """The policy by which a companion for this host is made; None stands for any host."""
    return "Any" if host is None else "SameNode"


def companion_name(rule: Rule, workload: Workload) -> str:
    """`<rule>-<workload id>`, or `<rule>-tenant-<tenant>-<workload id>` for an admin's rule; always the same.

    A Pod's name becomes its host name, which ends at 63 characters: longer ones are shortened with a stable hash. The
    workload's id stays whole where it can, for people search by it.
    """
    stem = rule.name if rule.kind == "tenant" else f"{rule.name}-{workload.namespace}"
    name = f"{stem}-{workload.id}"
    if len(name) <= DNS_LABEL_LIMIT:
        return name
    room = DNS_LABEL_LIMIT - len(workload.id) - 1
    return f"{shorten(stem, room)}-{workload.id}" if room >= _LEAST_STEM else shorten(name)


def labels_of(rule: Rule, workload: Workload) -> dict[str, str]:
    return {COMPANION: rule.kind, WORKLOAD_ID: shorten(workload.id)}


def annotations_of(
    rule: Rule, workload: Workload, *, spec_hash: str, injected: Mapping[str, str], host: str | None
) -> dict[str, str]:
    """The annotations that are marks. Only that of the injected ones changes while the Pod exists."""
    annotations = {
        RULE_NAME: rule.name,
        RULE: rule.id,
        WORKLOAD: f"{workload.namespace}/{workload.id}",
        SPEC_HASH: spec_hash,
        INJECTED: injected_mark(injected),
    }
    return annotations if host is None else {**annotations, DPU_OF_HOST: host}


def injected_mark(names: Mapping[str, str]) -> str:
    """The value of the annotation that lists the injected ones."""
    return encode_json(sorted(names)).decode()


def digest_of(injected: Mapping[str, str]) -> bytes:
    """Eight bytes that stand for the annotations and their values."""
    return hashlib.blake2b(encode_json(sorted(injected.items())), digest_size=8).digest()


def companion_of(pod: JSON) -> Companion:
    """The companion that this Pod is. Raises ValueError, with the reason, where it is none."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    kind = (metadata.get("labels") or {}).get(COMPANION)
    namespace, name = metadata["namespace"], metadata["name"]
    rule, workload = _pair(annotations, RULE), _pair(annotations, WORKLOAD)
    if controller_of(metadata):
        raise ValueError("another controller owns it")
    if kind not in ("tenant", "admin"):
        raise ValueError(f"label {COMPANION} is neither tenant nor admin")
    if not workload[0].startswith(TENANT_NAMESPACE_PREFIX):
        raise ValueError(f"annotation {WORKLOAD} names no tenant's namespace")
    if rule[0] != namespace or (kind == "tenant") != (workload[0] == namespace):
        raise ValueError(f"annotations {RULE} and {WORKLOAD} belong to another namespace")
    injected, digest = _injected(annotations)
    return Companion(
        namespace=intern(namespace),
        name=name,
        uid=metadata["uid"],
        rule=(intern(rule[0]), intern(rule[1])),
        workload=(intern(workload[0]), workload_name(workload[1])),
        spec_hash=intern(annotations.get(SPEC_HASH) or ""),
        digest=digest,
        injected=injected,
        ending=bool(metadata.get("deletionTimestamp")),
        lost=_lost(pod),
        intact=annotations.get(RULE_NAME) == rule[1] and metadata["labels"].get(WORKLOAD_ID) == shorten(workload[1]),
        host=host_of(annotations),
        bound=is_bound(pod),
        queued=is_queued(pod),
        standing=standing_of(pod),
        weight=weight_of(pod.get("spec")),
        size=size_of(pod),
        version=version_of(metadata),
    )


def is_bound(pod: JSON) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def is_queued(pod: JSON) -> bool:
    """Whether the scheduler has yet to look at the Pod for the first time; then it has a node, or a condition.

    One with claims of devices is not in its queue until these exist, and other schedulers have queues of their own.
    """
    status, spec = status_of(pod), pod.get("spec") or {}
    if spec.get("resourceClaims") or (spec.get("schedulerName") or DEFAULT_SCHEDULER) != DEFAULT_SCHEDULER:
        return False
    if is_bound(pod) or pod["metadata"].get("deletionTimestamp") or status.get("phase") in ("Succeeded", "Failed"):
        return False
    return not any(condition.get("type") == "PodScheduled" for condition in status.get("conditions") or ())


def size_of(pod: JSON) -> int:
    """Bytes of what its author says of a Pod."""
    metadata = pod["metadata"]
    return len(encode_json([metadata.get("labels"), metadata.get("annotations"), pod.get("spec")]))


def version_of(metadata: JSON) -> int:
    """The resource version where it can be compared, else 0."""
    return whole_or(metadata.get("resourceVersion"), 0)


def _pair(annotations: Mapping[str, str], mark: str) -> tuple[str, str]:
    namespace, slash, name = (annotations.get(mark) or "").partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ValueError(f"annotation {mark} is missing or unreadable")
    return namespace, name


@lru_cache(maxsize=4096)
def _names(text: str) -> tuple[str, ...] | None:
    """The few lists of names that there are, decoded once and shared; None for an unreadable one."""
    try:
        return tuple(intern(name) for name in _decode_names(text))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _injected(annotations: Mapping[str, str]) -> tuple[tuple[str, ...], bytes]:
    """Names and digest; an unreadable list has the digest that no other has, so that it is written again."""
    names = _names(annotations.get(INJECTED) or "")
    if names is None:
        return (), _UNREADABLE
    return names, digest_of({name: annotations[name] for name in names if name in annotations})


def _lost(pod: JSON) -> bool:
    """Failed by eviction, with its node or the like; not by its own end or its own deadline."""
    status = status_of(pod)
    if status.get("phase") != "Failed" or status.get("reason") == "DeadlineExceeded":
        return False
    # A Pod that may end by itself says no reason when it does; one that may not has no other way to fail.
    return (pod.get("spec") or {}).get("restartPolicy", "Always") != "Never" or bool(status.get("reason"))


def standing_of(pod: JSON) -> str:
    """Whether a companion runs, and what keeps it from that, in one word of the Pod's own status.

    `RUNS`, or a reason as `kubectl get pods` and the scheduler have them: Unschedulable, ImagePullBackOff, NotReady.

    The result is one string for all Pods that have the same.
    """
    return intern(cut(_standing(pod.get("status") or {}, pod.get("spec") or {}), _LONGEST_STANDING))


def _standing(status: JSON, spec: JSON) -> str:
    phase = str(status.get("phase") or "Pending")
    if phase not in ("Pending", "Running"):
        return str(status.get("reason") or phase)
    if phase == "Running" and condition(status, "Ready").get("status") != "False":
        return RUNS
    if not spec.get("nodeName"):
        return str(condition(status, "PodScheduled").get("reason") or phase)
    for name in _CONTAINERS:
        for container in status.get(name) or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = str(waiting.get("reason") or _BEGINNING[0])
            if reason not in _BEGINNING:
                return reason
    return "NotReady" if phase == "Running" else _BEGINNING[0]


def obstacles_of(pod: JSON) -> JSON:
    """What of a Pod's status says why it does not run, as its tenant may see it; {} if it runs or has succeeded.

    The members are those of a Pod's status. Of the scheduler's message only known clauses are kept.
    """
    status = status_of(pod)
    ready = condition(status, "Ready")
    phase = status.get("phase")
    if phase == "Succeeded" or (phase == "Running" and ready.get("status") != "False"):
        return {}
    scheduled = condition(status, "PodScheduled")
    conditions = [_shown(ready)] if ready else []
    if scheduled.get("status") == "False":
        unfit = ", ".join(_UNFIT.findall(str(scheduled.get("message") or "")))
        conditions.append(_shown(scheduled) | {"message": unfit})
    parts: JSON = {
        part: abridged(str(status[part]), _LONGEST_MESSAGE) for part in ("reason", "message") if status.get(part)
    }
    if conditions:
        parts["conditions"] = conditions
    for name in _CONTAINERS:
        if containers := [_shown_container(container) for container in status.get(name) or ()]:
            parts[name] = containers
    return parts


def _shown(part: JSON, fields: tuple[str, ...] = ("type", "status", "reason", "message", "lastTransitionTime")) -> JSON:
    values: dict[str, Any] = {field: part[field] for field in fields if part.get(field) is not None}
    if "message" in values:
        values["message"] = abridged(str(values["message"]), _LONGEST_MESSAGE)
    return values


def _shown_container(container: JSON) -> JSON:
    shown: dict[str, Any] = {"name": container.get("name"), "restartCount": container.get("restartCount") or 0}
    for place in ("state", "lastState"):
        held = mapping(container.get(place))
        states = {
            "waiting": _shown(mapping(held.get("waiting")), ("reason", "message")),
            "terminated": _shown(mapping(held.get("terminated")), _ENDED),
        }
        if states := {name: state for name, state in states.items() if state}:
            shown[place] = states
    return shown
