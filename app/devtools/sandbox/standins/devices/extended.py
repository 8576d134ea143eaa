"""Extended resources that devices serve (KEP-5004): which class serves which, and the claim for a Pod. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.kinds.requests import amounts_of
from app.kube.resources import IMPLICIT_PREFIX
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Special:
    """The requests of the claim for extended resources, and which container has which of them."""

    requests: list[JSON]
    mappings: list[JSON]


def serving_classes(classes: Iterable[JSON]) -> dict[str, str]:
    """The class that serves a resource, by its name. Of several, the newest does; then the first by name."""
    found: dict[str, str] = {}
    ordered = sorted(classes, key=lambda one: str(one["metadata"]["name"]), reverse=True)
    for body in sorted(ordered, key=lambda one: str(one["metadata"].get("creationTimestamp") or "")):
        name, resource = body["metadata"]["name"], (body.get("spec") or {}).get("extendedResourceName")
        if resource:
            found[resource] = name
        found[IMPLICIT_PREFIX + name] = name
    return found


_Key = tuple[int, str]
"""The number of a container (init containers first), and a resource."""


def special_claim(pod: JSON, classes: Mapping[str, str]) -> Special:
    """The claim for the resources in `classes`, which has the class of each.

    Containers that run to the end of the Pod have requests of their own. Init containers use these too, and of what
    they need beyond, the one that needs most has one.
    """
    spec = pod["spec"]
    inits = spec.get("initContainers") or ()
    containers: list[JSON] = [*inits, *(spec.get("containers") or ())]
    brief = [at for at, container in enumerate(inits) if container.get("restartPolicy") != "Always"]
    lasting = [at for at in range(len(containers)) if at not in brief]
    needs = [_needs(container, classes) for container in containers]
    counts: dict[_Key, int] = {(at, name): count for at in lasting for name, count in needs[at].items()}
    counts |= _beyond(needs, brief, counts)
    names = _names(counts)
    pairs = [(at, key) for at in lasting for key in counts if key[0] == at]
    pairs += [(at, key) for at in brief for name, count in needs[at].items() for key in _enough(name, count, counts)]
    mappings = [_mapping(containers[at], key[1], names[key]) for at, key in pairs]
    requests = [_request(name, classes[key[1]], counts[key]) for key, name in names.items()]
    return Special(requests, mappings)


def _beyond(needs: Sequence[Mapping[str, int]], brief: Sequence[int], counts: Mapping[_Key, int]) -> dict[_Key, int]:
    """What init containers need on top of `counts`."""
    found = {}
    for resource in sorted({resource for at in brief for resource in needs[at]}):
        most, at = min((-needs[at].get(resource, 0), at) for at in brief)
        lacking = -most - sum(count for (_, name), count in counts.items() if name == resource)
        if lacking > 0:
            found[at, resource] = lacking
    return found


def _enough(resource: str, needed: int, counts: Mapping[_Key, int]) -> Iterator[_Key]:
    """The first requests that together are what is needed."""
    for key, count in counts.items():
        if key[1] == resource and needed > 0:
            yield key
            needed -= count


def _needs(container: JSON, classes: Collection[str]) -> dict[str, int]:
    resources: JSON = container.get("resources") or {}
    asked = {**amounts_of(resources.get("limits")), **amounts_of(resources.get("requests"))}
    return {name: int(amount) for name, amount in sorted(asked.items()) if name in classes and amount > 0}


def _names(counts: Mapping[_Key, int]) -> dict[_Key, str]:
    numbers: dict[int, int] = {}
    names = {}
    for key in sorted(counts):
        number = numbers[key[0]] = numbers.get(key[0], -1) + 1
        names[key] = f"container-{key[0]}-request-{number}"
    return names


def _request(name: str, device_class: str, count: int) -> JSON:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": exactly}


def _mapping(container: JSON, resource: str, request: str) -> JSON:
    return {"containerName": container["name"], "resourceName": resource, "requestName": request}
