"""Exclusive CPUs as kubelet's CPU manager gives them with the static policy. Pure.

Source: https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/#static-policy
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from app.kinds.requests import amounts_of, quality_of_service
from app.wire import JSON


class NotAdmitted(Exception):
    """kubelet rejects the Pod: `reason` and the text are those of its status."""

    def __init__(self, message: str, reason: str = "UnexpectedAdmissionError") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Machine:
    """The CPUs of each NUMA node; the reserved ones are for the system and shared."""

    numa: Mapping[int, Collection[int]]
    reserved: frozenset[int] = frozenset()

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset(cpu for cpus in self.numa.values() for cpu in cpus)

    @property
    def allocatable(self) -> frozenset[int]:
        return self.cpus - self.reserved


@dataclass(slots=True)
class CpuManager:
    """`given` are the exclusive CPUs by the UID of the Pod and the container."""

    machine: Machine
    given: dict[str, dict[str, frozenset[int]]] = field(default_factory=dict)

    @property
    def shared(self) -> frozenset[int]:
        """What containers without CPUs of their own run on."""
        taken = (cpus for containers in self.given.values() for cpus in containers.values())
        return self.machine.cpus.difference(*taken)

    def admit(self, pod: JSON) -> None:
        """Give CPUs to all containers, or raise NotAdmitted and give none. A Pod that has them keeps them."""
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        if uid in self.given or quality_of_service(spec) != "Guaranteed":
            return
        free, reusable = self.shared - self.machine.reserved, frozenset[int]()
        found: dict[str, frozenset[int]] = {}
        for init in spec.get("initContainers") or ():
            found |= (taken := self._take(init, free, reusable))
            cpus = frozenset[int]().union(*taken.values())
            free -= cpus
            # What an init container that ends has had is for those after it.
            reusable = reusable - cpus if init.get("restartPolicy") == "Always" else reusable | cpus
        for container in spec.get("containers") or ():
            found |= (taken := self._take(container, free, reusable))
            cpus = frozenset[int]().union(*taken.values())
            free, reusable = free - cpus, reusable - cpus
        if found:
            self.given[uid] = found

    def remove(self, uid: str) -> None:
        self.given.pop(uid, None)

    def _take(self, container: JSON, free: frozenset[int], reusable: frozenset[int]) -> dict[str, frozenset[int]]:
        count = _whole_cpus(container)
        if not count:
            return {}
        if count > len(free | reusable):
            text = f"requested={count}, available={len(free | reusable)}"
            raise NotAdmitted(
                f"Allocate failed due to not enough cpus available to satisfy request: {text}, which is unexpected"
            )
        first = sorted(reusable)[:count]
        return {container["name"]: frozenset((*first, *self._by_node(free, count - len(first))))}

    def _by_node(self, free: frozenset[int], count: int) -> Iterable[int]:
        """The lowest CPUs of the fullest NUMA node that has enough; else of all."""
        nodes = [sorted(free.intersection(cpus)) for _, cpus in sorted(self.machine.numa.items())]
        fitting = sorted((cpus for cpus in nodes if len(cpus) >= count), key=len)
        return (fitting[0] if fitting else [cpu for cpus in nodes for cpu in cpus])[:count]


def _whole_cpus(container: JSON) -> int:
    """As many exclusive CPUs as the container asks for: 0 where it asks for a part of one."""
    resources: JSON = container.get("resources") or {}
    cpu = amounts_of({**(resources.get("limits") or {}), **(resources.get("requests") or {})}).get("cpu")
    return int(cpu) if cpu is not None and cpu == cpu.to_integral_value() else 0
