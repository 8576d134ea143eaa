"""What keeps a Pod from the cache ways and settings that it asks daemons for, and what of it has no effect. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.admission.pods import crowded
from app.kinds.requests import pod_requests
from app.kube.names import DNS_LABEL_LIMIT
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.pods import SETTINGS, read_pod, ways_of
from app.text import quoted
from app.wire import JSON

POLICIES = ("gold", "silver", "bronze")
"""Those that RMD has for every CPU that it knows."""


@dataclass(frozen=True, slots=True)
class Found:
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_pod(pod: JSON, most_ways: int | None) -> Found:
    """What keeps a Pod from its reservations, and what of it has no effect; `most_ways` are those of one node."""
    spec: JSON = pod.get("spec") or {}
    asking = [
        sum(ways_of(container) is not None for container in spec.get(kind) or ())
        for kind in ("containers", "initContainers")
    ]
    if crowd := tuple(crowded(*asking, what="asks for cache ways in each")):
        return Found(crowd)
    asks = read_pod(pod)
    problems = dict.fromkeys(line for one in asks.containers for line in one.problems)
    warnings = [line for one in asks.containers for line in one.warnings]
    for one in asks.containers:
        warnings += _unknown_policy(one.container, one.spec.get("policy", ""))
        warnings += _too_long(one.container)
    if asks.containers and most_ways is not None:
        warnings += _too_many(pod, most_ways)
    return Found(tuple(problems), (*warnings, *asks.warnings))


def _unknown_policy(container: str, policy: str) -> Iterator[str]:
    if policy and policy not in POLICIES:
        yield (
            f"metadata.annotations[{container}_policy]: {quoted(policy)} is no policy that every daemon has: "
            f"want {', '.join(POLICIES)}, or one that the daemons are configured with"
        )


def _too_long(container: str) -> Iterator[str]:
    names = [one for one in SETTINGS if len(container) + 1 + len(one) > DNS_LABEL_LIMIT]
    if names:
        yield (
            f"container {container}: its name is too long for the annotations of {', '.join(names)}: "
            f"a key has at most {DNS_LABEL_LIMIT} characters"
        )


def _too_many(pod: JSON, most: int) -> Iterator[str]:
    wanted = pod_requests(pod).get(L3_CACHE_WAYS, 0)
    if wanted > most:
        yield f"spec: the containers ask for {wanted} {L3_CACHE_WAYS} together, and no node has more than {most}"


def too_late(pod: JSON, old: JSON) -> Iterator[str]:
    now, before = _annotations(pod), _annotations(old)
    changed = {key for key in {*now, *before} if now.get(key) != before.get(key)}
    names = [one["name"] for kind in ("initContainers", "containers") for one in pod["spec"].get(kind) or ()]
    for key in sorted(changed & {f"{name}_{setting}" for name in names for setting in SETTINGS}):
        yield f"metadata.annotations[{key}]: has no effect any more: a Pod gets its RDT classes when it is created"


def _annotations(pod: JSON) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}
