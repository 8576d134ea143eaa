"""Finds the extended resources that a Pod need not ask for: its claims, or other names, ask for the same devices."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from app.admission.pods import Pod
from app.claims.definitions import DeviceClass
from app.claims.injection.sources import Sources, claims_by_reference
from app.kube.lookup import Lookup
from app.kube.resources import IMPLICIT_PREFIX
from app.networks.device_requests import holders, implicit_in


class ClaimedResources:
    """By the DeviceClasses that claims ask for: `spec.extendedResourceName`, and the implicit resource of each."""

    def __init__(self, sources: Sources, classes: Lookup[DeviceClass]) -> None:
        self._sources, self._classes = sources, classes

    def of(self, pod: Pod, namespace: str) -> Generator[tuple[Lookup[Any], str, str], Any, Mapping[str, int]]:
        """How many devices the claims of a Pod ask for, by resource."""
        counts: dict[str, int] = {}
        for reference, claims in claims_by_reference(pod).items():
            requests = yield from self._sources.requests(namespace, reference)
            for name, count in (requests or {}).items():
                counts[name] = counts.get(name, 0) + count * len(claims)
        found: dict[str, int] = {}
        for name, count in counts.items():
            found[IMPLICIT_PREFIX + name] = count
            known: DeviceClass | None = yield self._classes, "", name
            if known is not None and known.resource:
                found[known.resource] = found.get(known.resource, 0) + count
        return found


class OtherNames:
    """A DeviceClass has two extended resources: `spec.extendedResourceName` and the implicit one (KEP-5004)."""

    def __init__(self, classes: Lookup[DeviceClass]) -> None:
        self._classes = classes

    def of(self, pod: Pod, needs: Mapping[str, int]) -> Generator[tuple[Lookup[Any], str, str], Any, Mapping[str, int]]:
        """How many of the devices that networks need a Pod asks for by the other name of their class, by resource.

        What the Pod asks for by a name is for the networks that need that name first.
        """
        found: dict[str, int] = {}
        for name in sorted({*implicit_in(pod), *(need for need in needs if need.startswith(IMPLICIT_PREFIX))}):
            known: DeviceClass | None = yield self._classes, "", name.removeprefix(IMPLICIT_PREFIX)
            if known is None or not known.resource:
                continue
            for need, other in ((known.resource, name), (name, known.resource)):
                spare = sum(holders(pod, other).values()) - needs.get(other, 0)
                if need in needs and spare > 0:
                    found[need] = found.get(need, 0) + spare
        return found
