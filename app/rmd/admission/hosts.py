"""The nodes as reviews see them: their labels, and the cache ways that they announce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.kube.quantity import QuantityError, parse, parse_integer
from app.kube.store import Store
from app.rmd.model import L3_CACHE_WAYS
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Host:
    """`ways` are all that Pods on the node can have together, `cpus` those of the machine; None: it does not say."""

    labels: Mapping[str, str]
    ways: int
    cpus: int | None


def stored_host(node: JSON) -> Host:
    status: JSON = node.get("status") or {}
    allocatable, capacity = status.get("allocatable") or {}, status.get("capacity") or {}
    return Host(
        labels=dict(node["metadata"].get("labels") or {}),
        ways=parse_integer(allocatable.get(L3_CACHE_WAYS, "0")),
        cpus=_cpus(capacity),
    )


def _cpus(capacity: JSON) -> int | None:
    try:
        return int(parse(capacity["cpu"])) or None
    except (KeyError, QuantityError):
        return None


class Hosts:
    def __init__(self, store: Store[Host]) -> None:
        self._store = store

    @property
    def most_ways(self) -> int | None:
        """The cache ways of the node with the most; None where no node is known."""
        return max((host.ways for host in self._store.values()), default=None)

    def __contains__(self, name: str) -> bool:
        return ("", name) in self._store

    def __bool__(self) -> bool:
        return len(self._store) > 0

    def cpus_of(self, name: str) -> int | None:
        """How many CPUs the machine has; None where it is not known."""
        host = self._store.get("", name)
        return host.cpus if host is not None else None

    def matches(self, name: str, selector: Mapping[str, str]) -> bool:
        """Whether there is a node of that name with these labels."""
        host = self._store.get("", name)
        return host is not None and selector.items() <= host.labels.items()

    def selected(self, selector: Mapping[str, str]) -> set[str]:
        return {name for _, name in self._store.keys() if self.matches(name, selector)}  # noqa: SIM118  no mapping
