"""Which object that Kueue manages another belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from app.appwrappers.ancestors import MOST, Ancestor, followed, managed_ancestor, resource_of, stored_ancestor
from app.kube.resources import Resource

JSON = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"


def owner(name: str, api_version: str = "batch/v1", kind: str = "Job", **more: Any) -> JSON:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True} | more


def stored(name: str, *owners: JSON, queue: str | None = None, **more: Any) -> JSON:
    labels = {} if queue is None else {QUEUE: queue}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels, "ownerReferences": list(owners)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata} | more


class Cluster:
    """Objects by name; `asked` are those that were read."""

    def __init__(self, *objects: JSON) -> None:
        self._objects = {obj["metadata"]["name"]: obj for obj in objects}
        self.asked: list[str] = []

    async def read(self, resource: Resource, namespace: str, name: str) -> Ancestor | None:
        self.asked.append(f"{namespace}/{resource.plural}/{name}")
        obj = self._objects.get(name)
        return stored_ancestor(obj) if obj else None

    async def ancestor(self, reference: JSON, *, unqueued: bool = False) -> str:
        found = await managed_ancestor(reference, "ns", self.read, managed=lambda one: bool(one.queue) or unqueued)
        return found.uid if found else ""


async def test_the_last_one_with_a_queue_counts() -> None:
    cluster = Cluster(
        stored("a", owner("b"), queue="q"), stored("b", owner("c")), stored("c", owner("d"), queue="q"), stored("d")
    )
    assert await cluster.ancestor(owner("a")) == "uid-c"
    assert cluster.asked == [f"ns/jobs/{name}" for name in "abcd"]
    assert await cluster.ancestor(owner("a"), unqueued=True) == "uid-d"


@pytest.mark.parametrize(
    "reference",
    [
        {},
        owner("absent"),
        owner("a", uid="another"),
        owner("a", uid=None),
        owner("plain"),
        owner("empty"),
        owner("a", api_version="example.com/v1"),
        owner("a", api_version="batch/v1/.."),
        owner("a", api_version="batch/.."),
        owner("a", kind="CronJob"),
        owner("../secrets/a"),
        owner("", uid="uid-a"),
        owner("a") | {"name": 7},
        owner("a") | {"name": None},
        owner("a", kind=["Job"]),
    ],
)
async def test_a_reference_alone_is_no_owner(reference: JSON) -> None:
    cluster = Cluster(stored("a", queue="q"), stored("plain"), stored("empty", queue=""))
    assert await cluster.ancestor(reference) == ""


async def test_between_a_replica_set_is_followed_and_manages_nothing() -> None:
    between = stored("rs", owner("d", "apps/v1", "Deployment"), queue="q", apiVersion="apps/v1", kind="ReplicaSet")
    above = stored("d", queue="q", apiVersion="apps/v1", kind="Deployment")
    reference = owner("rs", "apps/v1", "ReplicaSet")
    assert await Cluster(between, above).ancestor(reference) == "uid-d"
    assert await Cluster(between).ancestor(reference) == ""


async def test_what_is_read_is_bounded() -> None:
    chain = [stored(f"j{number}", owner(f"j{number + 1}")) for number in range(50)]
    cluster = Cluster(*chain, stored("j50", queue="q"))
    assert await cluster.ancestor(owner("j0")) == ""
    assert len(cluster.asked) == MOST == 10
    circle = Cluster(stored("a", owner("b"), queue="q"), stored("b", owner("a")))
    assert await circle.ancestor(owner("a")) == "uid-a"
    assert len(circle.asked) == MOST


def test_all_that_is_read_is_permitted() -> None:
    permitted = {(group, plural) for group, plurals in followed() for plural in plurals}
    for api_version, kind in (("v1", "Pod"), ("apps/v1", "ReplicaSet"), ("ray.io/v1", "RayService")):
        resource = resource_of(owner("a", api_version, kind))
        assert resource is not None
        assert (resource.group, resource.plural) in permitted
