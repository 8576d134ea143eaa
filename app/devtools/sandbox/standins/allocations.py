"""What containers were given of devices, as the status of their Pod says it: by device plugins, and by claims."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.kube.client import KubeClient
from app.kube.resources import RESOURCE_CLAIMS
from app.kube.retry import get_or_none
from app.wire import JSON


class Prepared(NamedTuple):
    """A claim by its name, and what is allocated to it."""

    name: str
    devices: Sequence[JSON]


class Claims:
    """Those of Pods that are bound, which are allocated by then; each is read once it is there."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[str, Mapping[str, Prepared]] = {}

    async def of(self, pod: JSON) -> Mapping[str, Prepared]:
        """By their entries in the Pod; without those that are not there."""
        uid, entries = pod["metadata"]["uid"], pod["spec"].get("resourceClaims") or ()
        if len(self._known.get(uid, ())) < len(entries):
            self._known[uid] = {name: prepared async for name, prepared in self._read(pod)}
        return self._known.get(uid, {})

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)

    async def _read(self, pod: JSON) -> AsyncIterator[tuple[str, Prepared]]:
        entries = [*pod["spec"]["resourceClaims"], *((pod.get("status") or {}).get("resourceClaimStatuses") or ())]
        for entry in entries:
            name = entry.get("resourceClaimName")
            claim = name and await get_or_none(
                self._client, RESOURCE_CLAIMS, name, namespace=pod["metadata"]["namespace"]
            )
            if claim:
                allocation = (claim.get("status") or {}).get("allocation") or {}
                yield entry["name"], Prepared(name, (allocation.get("devices") or {}).get("results") or ())


def health_of_claims(container: JSON, claims: Mapping[str, Prepared]) -> Iterator[JSON]:
    """The entries of `allocatedResourcesStatus` for the claims of a container; no driver says how its devices are."""
    for used in (container.get("resources") or {}).get("claims") or ():
        prepared, request = claims.get(used["name"]), used.get("request")
        if prepared is not None:
            devices = [device for device in prepared.devices if request in (None, device["request"].split("/")[0])]
            ids = ("/".join((device["driver"], device["pool"], device["device"])) for device in devices)
            resources = [{"resourceID": identity, "health": "Unknown"} for identity in ids]
            yield {"name": "/".join(filter(None, (f"claim:{used['name']}", request))), "resources": resources}
