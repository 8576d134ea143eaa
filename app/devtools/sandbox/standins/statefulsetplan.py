"""What is next for a StatefulSet: Pods to make and to end, in their order, and its status. Pure.

There is one template, the newest: no revision is kept, and a Pod below the partition that is made again has it too.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.devtools.sandbox.standins.dependents import is_ready, phase, template_hash
from app.wire import JSON

REVISION = "controller-revision-hash"
_POD_NAME, _POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class Step:
    """`create` has ordinals, `delete` Pods."""

    status: JSON
    create: tuple[int, ...] = ()
    delete: tuple[JSON, ...] = ()


def next_step(stateful: JSON, pods: list[JSON]) -> Step:
    """`pods` are all that the StatefulSet controls, also those that are being deleted."""
    spec = stateful["spec"]
    first = int((spec.get("ordinals") or {}).get("start") or 0)
    wanted = range(first, first + int(spec.get("replicas", 1)))
    found = {ordinal: pod for pod in pods if (ordinal := _ordinal(stateful, pod)) is not None}
    status = _status(stateful, list(found.values()), len(wanted))
    condemned = [found[ordinal] for ordinal in sorted(found, reverse=True) if ordinal not in wanted]
    missing = [ordinal for ordinal in wanted if ordinal not in found]
    ended = [found[one] for one in wanted if one in found and _has_ended(found[one])]
    unhealthy = [one for one in wanted if one not in found or not _is_healthy(found[one])]
    if spec.get("podManagementPolicy") == "Parallel":
        if missing or ended or condemned:
            return Step(status, tuple(missing), _deletable([*ended, *condemned]))
    elif unhealthy:
        # In order: what comes after the first that is not ready waits for it.
        one = unhealthy[0]
        return Step(
            status, (one,) if one in missing else (), _deletable([found[one]] if found.get(one) in ended else [])
        )
    if condemned:
        return Step(status, delete=_deletable(condemned[:1]))
    if unhealthy:
        return Step(status, delete=_deletable(_broken(stateful, found, wanted)))
    return Step(status, delete=_deletable(_outdated(stateful, found, wanted)[:1]))


def put_identity(pod: JSON, stateful: JSON, ordinal: int) -> None:
    """Make a Pod the one with this ordinal: name, labels, host name, the claims that it mounts."""
    metadata, spec = pod["metadata"], pod["spec"]
    name = f"{stateful['metadata']['name']}-{ordinal}"
    metadata.pop("generateName", None)
    labels = {_POD_NAME: name, _POD_INDEX: str(ordinal), REVISION: revision(stateful)}
    metadata |= {"name": name, "labels": {**(metadata.get("labels") or {}), **labels}}
    spec["hostname"] = name
    if stateful["spec"].get("serviceName"):
        spec["subdomain"] = stateful["spec"]["serviceName"]
    claims = [one["metadata"]["name"] for one in stateful["spec"].get("volumeClaimTemplates") or []]
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": f"{one}-{name}"}} for one in claims]
    if volumes:
        spec["volumes"] = [*(one for one in spec.get("volumes") or [] if one["name"] not in claims), *volumes]


def revision(stateful: JSON) -> str:
    """The name of the revision that Pods of the present template carry."""
    return f"{stateful['metadata']['name']}-{template_hash(stateful)}"


def _ordinal(stateful: JSON, pod: JSON) -> int | None:
    owner, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if owner == stateful["metadata"]["name"] and number.isdecimal() else None


def _deletable(pods: list[JSON]) -> tuple[JSON, ...]:
    return tuple(pod for pod in pods if not pod["metadata"].get("deletionTimestamp"))


def _outdated(stateful: JSON, found: dict[int, JSON], wanted: range) -> list[JSON]:
    """Pods of another template that are to be rolled, the last first."""
    strategy: JSON = stateful["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    return [
        found[one]
        for one in reversed(wanted)
        if one >= partition and one in found and not _is_current(stateful, found[one])
    ]


def _broken(stateful: JSON, found: dict[int, JSON], wanted: range) -> list[JSON]:
    """Of Pods that are not waited for in order, the outdated one that is not ready: it holds up no roll."""
    return [pod for pod in _outdated(stateful, found, wanted) if not _is_healthy(pod)][:1]


def _is_current(stateful: JSON, pod: JSON) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(REVISION) == revision(stateful))


def _has_ended(pod: JSON) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def _is_healthy(pod: JSON) -> bool:
    return is_ready(pod) and not pod["metadata"].get("deletionTimestamp")


def _status(stateful: JSON, pods: list[JSON], wanted: int) -> JSON:
    newest = revision(stateful)
    ready = [pod for pod in pods if is_ready(pod)]
    updated = [pod for pod in pods if _is_current(stateful, pod) and not pod["metadata"].get("deletionTimestamp")]
    before: JSON = stateful.get("status") or {}
    rolled = len(updated) == len(pods) == len(ready) == wanted
    current = newest if rolled else before.get("currentRevision") or newest
    return {
        "observedGeneration": stateful["metadata"].get("generation", 1),
        "replicas": len(pods),
        "readyReplicas": len(ready) or None,
        "availableReplicas": len(ready),
        "currentReplicas": sum((pod["metadata"].get("labels") or {}).get(REVISION) == current for pod in pods) or None,
        "updatedReplicas": len(updated) or None,
        "currentRevision": current,
        "updateRevision": newest,
        "collisionCount": 0,
    }
