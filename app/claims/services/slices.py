"""EndpointSlices that the controller keeps: as they are, and as they should be. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from app.claims.services.endpoints import Endpoint, Port, read_endpoint, read_port
from app.claims.services.model import MANAGED_BY, OURS, Service
from app.kube.owners import controller_of
from app.kube.resources import ENDPOINT_SLICES, SERVICES
from app.kube.store import Key, key_of
from app.wire import JSON

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EndpointSlice:
    """One of ours. `service` is the name of its owner, `owner` its UID.

    Endpoints that are not as we write them are None.
    """

    key: Key
    uid: str
    version: int
    service: str
    owner: str
    deleting: bool
    family: str
    labels: Labels
    ports: tuple[Port, ...]
    endpoints: tuple[Endpoint | None, ...]

    @property
    def of(self) -> Key:
        """The Service."""
        return self.key[0], self.service


def stored_endpoint_slice(obj: JSON) -> EndpointSlice | None:
    """None for a slice that lacks our label, or an owner that is a Service: it is not ours."""
    metadata = obj["metadata"]
    labels, owner = metadata.get("labels") or {}, controller_of(metadata)
    kind = (owner.get("apiVersion"), owner.get("kind"))
    if labels.get(MANAGED_BY) != OURS or kind != (SERVICES.api_version, SERVICES.kind):
        return None
    return EndpointSlice(
        key=key_of(obj),
        uid=metadata.get("uid", ""),
        version=int(metadata["resourceVersion"]),
        service=owner["name"],
        owner=owner["uid"],
        deleting="deletionTimestamp" in metadata,
        family=obj["addressType"],
        labels=tuple(sorted(labels.items())),
        ports=tuple(sorted(read_port(one) for one in obj.get("ports") or ())),
        endpoints=tuple(read_endpoint(one) for one in obj.get("endpoints") or ()),
    )


class Wanted(NamedTuple):
    """What a slice should have."""

    family: str
    ports: tuple[Port, ...]
    endpoints: tuple[Endpoint, ...]
    labels: Labels

    def body(self, name: str, service: Service) -> JSON:
        """The object to create."""
        metadata = {
            "name": name,
            "namespace": service.key[0],
            "labels": dict(self.labels),
            "ownerReferences": [service.owner],
        }
        lists = {"ports": [one.body() for one in self.ports], "endpoints": [one.body() for one in self.endpoints]}
        return ENDPOINT_SLICES.body(metadata, addressType=self.family, **lists)

    def patch(self, found: EndpointSlice) -> JSON:
        """The merge patch that makes it of a slice of its family; empty where it is so already."""
        patch: JSON = {}
        if found.labels != self.labels:
            gone = dict.fromkeys(dict(found.labels).keys() - dict(self.labels).keys())
            patch["metadata"] = {"labels": {**gone, **dict(self.labels)}}
        if found.ports != self.ports:
            patch["ports"] = [one.body() for one in self.ports]
        if found.endpoints != self.endpoints:
            patch["endpoints"] = [one.body() for one in self.endpoints]
        return patch
