"""Devices of plugins for the containers of Pods, as kubelet's device manager gives them.

Source: pkg/kubelet/cm/devicemanager of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from app.devtools.kubelet.allocating import allocate
from app.devtools.kubelet.containers import Container, in_order
from app.devtools.kubelet.cpus import NotAdmitted
from app.devtools.kubelet.plugins import Registration
from app.devtools.kubelet.resources import HEALTHY, Given, Resource, numa_nodes
from app.kinds.requests import amounts_of
from app.wire import JSON


class Devices:
    """`given` by the UID of the Pod, container and resource."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration
        self.given: dict[str, dict[str, dict[str, Given]]] = {}

    async def admit(self, pod: JSON, numa: Callable[[str], Collection[int]]) -> None:
        """Give devices to all containers, or raise NotAdmitted; `remove` then takes back what some have.

        `numa` has the NUMA nodes of a container's CPUs: their devices come first. One Pod at a time.
        """
        uid = pod["metadata"]["uid"]
        if uid in self.given:
            return
        found = self.given[uid] = {}
        reusable: dict[str, Given] = {}
        for container in in_order(pod):
            for name, resource, count in self._asked(container):
                left = reusable.setdefault(name, {})
                taken = await self._allocated(name, resource, count, left, numa(container.name))
                if taken:
                    found.setdefault(container.name, {})[name] = taken
                if container.ends:
                    left |= taken
                else:
                    reusable[name] = {one: nodes for one, nodes in left.items() if one not in taken}

    def remove(self, uid: str) -> None:
        self.given.pop(uid, None)

    def of(self, uid: str, container: str) -> Mapping[str, Given]:
        return self.given.get(uid, {}).get(container, {})

    def health(self, uid: str, container: str) -> list[JSON]:
        """What a container has, as `allocatedResourcesStatus` shows it."""
        return [
            {
                "name": name,
                "resources": [
                    {"resourceID": device, "health": HEALTHY if device in self._healthy(name) else "Unhealthy"}
                    for device in sorted(given)
                ],
            }
            for name, given in self.of(uid, container).items()
            if given
        ]

    def _healthy(self, name: str) -> Collection[str]:
        return self._registration.resources[name].healthy

    def _taken(self, name: str) -> set[str]:
        pods = self.given.values()
        return {one for pod in pods for resources in pod.values() for one in resources.get(name, ())}

    def _asked(self, container: Container) -> list[tuple[str, Resource, int]]:
        """What the limits of a container name and kubelet knows, or has given before."""
        limits = amounts_of((container.spec.get("resources") or {}).get("limits"))
        found = self._registration.resources
        return [
            (name, found[name], int(amount))
            for name, amount in sorted(limits.items())
            if name in found and (found[name].known or self._taken(name))
        ]

    async def _allocated(
        self, name: str, resource: Resource, count: int, reusable: Given, near: Collection[int]
    ) -> Given:
        if not resource.known:
            raise NotAdmitted(f"cannot allocate unregistered device {name}")
        if not resource.healthy:
            raise NotAdmitted(f"no healthy devices present; cannot allocate unhealthy devices {name}")
        if not count:
            return {}
        free = {one: numa_nodes(resource.devices[one]) for one in resource.healthy - self._taken(name)}
        missing = max(0, count - len(reusable))
        if len(free) < missing:
            text = f"requested number of devices unavailable for {name}."
            raise NotAdmitted(f"{text} Requested: {missing}, Available: {len(free)}")
        endpoint = self._registration.endpoints[name]
        chosen = await allocate(endpoint, count, sorted(reusable)[:count], free, near)
        return {one: (reusable | free)[one] for one in chosen}
