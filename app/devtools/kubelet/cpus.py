"""Exclusive CPUs as kubelet's CPU manager gives them with the static policy. Pure.

Source: https://kubernetes.io/docs/tasks/administer-cluster/cpu-management-policies/#static-policy
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from app.devtools.kubelet.containers import Container, in_order
from app.kinds.requests import amounts_of, filled_requests, quality_of_service
from app.wire import JSON


class NotAdmitted(Exception):
    """kubelet rejects the Pod: `reason` and the text are those of its status."""

    reason = "UnexpectedAdmissionError"

    def __init__(self, cause: str) -> None:
        super().__init__(f"Allocate failed due to {cause}, which is unexpected")


@dataclass(frozen=True, slots=True)
class Machine:
    """The CPUs of each NUMA node; the reserved ones are for the system and shared."""

    numa: Mapping[int, Collection[int]]
    reserved: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if unknown := sorted(self.reserved - self.cpus):
            raise ValueError(f"reserved: the machine has no CPU {unknown[0]}: want some of {sorted(self.cpus)}")

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
        uid = pod["metadata"]["uid"]
        if uid in self.given or not _is_eligible(pod["spec"]):
            return
        free, reusable = self.shared - self.machine.reserved, frozenset[int]()
        found: dict[str, frozenset[int]] = {}
        for container in in_order(pod):
            cpus = self._take(container, free, reusable)
            free -= cpus
            reusable = reusable | cpus if container.ends else reusable - cpus
            if cpus:
                found[container.name] = cpus
        if found:
            self.given[uid] = found

    def remove(self, uid: str) -> None:
        self.given.pop(uid, None)

    def _take(self, container: Container, free: frozenset[int], reusable: frozenset[int]) -> frozenset[int]:
        count, available = _whole_cpus(container.spec), len(free | reusable)
        if count > available:
            raise NotAdmitted(f"not enough cpus available to satisfy request: requested={count}, available={available}")
        first = sorted(reusable)[:count]
        return frozenset((*first, *self._by_node(free, count - len(first))))

    def _by_node(self, free: frozenset[int], count: int) -> Iterable[int]:
        """The lowest CPUs of the fullest NUMA node that has enough; else of all."""
        nodes = [sorted(free.intersection(cpus)) for _, cpus in sorted(self.machine.numa.items())]
        fitting = sorted((cpus for cpus in nodes if len(cpus) >= count), key=len)
        return (fitting[0] if fitting else [cpu for cpus in nodes for cpu in cpus])[:count]


def _is_eligible(spec: JSON) -> bool:
    """Whether containers of a Pod may have exclusive CPUs. Those of a Pod with resources of its own may not by default.

    Source: the feature gate PodLevelResourceManagers of Kubernetes 1.36.
    """
    whole: JSON = spec.get("resources") or {}
    return quality_of_service(spec) == "Guaranteed" and not (whole.get("requests") or whole.get("limits"))


def _whole_cpus(container: JSON) -> int:
    """As many exclusive CPUs as the container asks for: 0 where it asks for a part of one."""
    resources: JSON = container.get("resources") or {}
    cpu = amounts_of(filled_requests(resources)).get("cpu")
    return int(cpu) if cpu is not None and cpu == cpu.to_integral_value() else 0
