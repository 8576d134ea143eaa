"""Finds the extended resources that a Pod need not ask for, since claims that it brings ask for the same devices."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from app.admission.pods import Pod
from app.claims.definitions import DeviceClass
from app.claims.injection.sources import Sources, claims_by_reference
from app.claims.model import IMPLICIT_PREFIX
from app.kube.lookup import Lookup


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
