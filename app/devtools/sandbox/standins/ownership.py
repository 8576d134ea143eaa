"""Who owns whom: owner references of all objects of a cluster, as the garbage collector sees them. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.kube.resources import Resource
from app.kube.store import Store
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Owner:
    """One owner reference."""

    uid: str
    api_version: str
    kind: str
    name: str
    blocks: bool


@dataclass(frozen=True, slots=True)
class Item:
    """What garbage collection needs to know of an object."""

    namespace: str
    name: str
    uid: str
    version: str
    owners: tuple[Owner, ...]
    finalizers: tuple[str, ...]
    deleting: bool


def read_item(obj: JSON) -> Item:
    """The projection under which the collector caches every object."""
    metadata = obj["metadata"]
    owners = tuple(
        Owner(
            uid=str(owner.get("uid")),
            api_version=str(owner.get("apiVersion")),
            kind=str(owner.get("kind")),
            name=str(owner.get("name")),
            blocks=bool(owner.get("blockOwnerDeletion")),
        )
        for owner in metadata.get("ownerReferences") or []
    )
    return Item(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata.get("resourceVersion") or "",
        owners=owners,
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def item_store() -> Store[Item]:
    """A store of items that finds them by their own uid (`uid`) and by their owners' (`owner`)."""
    return Store(
        read_item, indices={"uid": lambda item: [item.uid], "owner": lambda item: {owner.uid for owner in item.owners}}
    )


class Graph:
    """The stores of all resources together."""

    def __init__(self) -> None:
        self.stores: dict[Resource, Store[Item]] = {}

    @property
    def synced(self) -> bool:
        return all(store.synced for store in self.stores.values())

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a reference; its version may be another one than the cluster prefers."""
        group = api_version.rpartition("/")[0]
        return next((one for one in self.stores if (one.group, one.kind) == (group, kind)), None)

    def find(self, uid: str) -> tuple[Resource, Item] | None:
        for resource, store in self.stores.items():
            found = store.by_index("uid", uid)
            if found:
                return resource, found[0]
        return None

    def dependents(self, uid: str) -> Iterator[tuple[Resource, Item]]:
        for resource, store in self.stores.items():
            for item in store.by_index("owner", uid):
                yield resource, item
