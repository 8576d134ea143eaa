"""RmdWorkloads that ask for the same cores of the same node, of which a daemon takes the first alone. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from app.admission.naming import counted, readable
from app.kube.store import Key, Store, key_of
from app.pace import step
from app.rmd.admission.hosts import Hosts
from app.rmd.cores import ranges_of
from app.rmd.requests import Request, read_spec
from app.wire import JSON

_NAMED = 5
"""Others that are named."""
BY_NODE = "node"
"""The index of stored RmdWorkloads by the nodes that they name."""
_SELECTING = ""
"""Stands in that index for all nodes: those of a selector change with the labels of nodes."""


@dataclass(frozen=True, slots=True)
class Held:
    key: Key
    request: Request


def stored_held(obj: JSON) -> Held | None:
    """None of one that is being deleted, and of one that no daemon is asked for."""
    read = read_spec(obj.get("spec") or {})
    return None if read.problems or "deletionTimestamp" in obj["metadata"] else Held(key_of(obj), read.request)


def indexed_nodes(held: Held) -> tuple[str, ...]:
    """The keys of a stored RmdWorkload in the index `BY_NODE`."""
    return (_SELECTING,) if held.request.node_selector else held.request.nodes


def neighbors(request: Request, stored: Store[Held], hosts: Hosts) -> Iterable[Held]:
    """Those that may have a node in common with the request, each once. `stored` has the index `BY_NODE`."""
    nodes = hosts.selected(request.node_selector) if request.node_selector else request.nodes
    keys = (_SELECTING, *nodes) if nodes else ()
    if sum(stored.count(BY_NODE, key) for key in keys) >= len(stored):  # many nodes in common: each is looked at once
        return stored.values()
    return {held.key: held for key in keys for held in stored.by_index(BY_NODE, key)}.values()


def overlaps(one: Held, others: Iterable[Held], hosts: Hosts, *, home: str) -> Iterator[str]:
    """Warnings: the others may go away, or their daemons may have refused them.

    RmdWorkloads of other namespaces than `home` are counted: their cores and nodes stand together, their names nowhere.
    """
    mine = hosts.selected(one.request.node_selector) if one.request.node_selector else set(one.request.nodes)
    found: list[str] = []
    foreign: list[Request] = []
    on: set[str] = set()
    for other in sorted(others, key=lambda held: held.key):
        step()
        if other.key == one.key or not _share(one.request, other.request):
            continue
        nodes = _shared_nodes(mine, other.request, hosts)
        if not nodes:
            continue
        if readable(other.key, home):
            cores = _cores(one.request, (other.request,))
            found.append(f"{cores} of {_list(sorted(nodes))} for {'/'.join(other.key)}")
        else:
            foreign.append(other.request)
            on |= nodes
    texts = [_list(found, "; ")] if found else []
    if foreign:
        texts.append(
            f"{_cores(one.request, foreign)} of {_list(sorted(on))} for {counted('RmdWorkload', len(foreign))}"
        )
    if texts:
        field = "spec.allCores" if one.request.all_cores else "spec.coreIds"
        yield f"{field}: a daemon gives a core to one RmdWorkload, and others ask for {'; '.join(texts)}"


def _shared_nodes(nodes: set[str], request: Request, hosts: Hosts) -> set[str]:
    if request.node_selector:
        return {node for node in nodes if hosts.matches(node, request.node_selector)}
    return nodes.intersection(request.nodes)


def _share(one: Request, other: Request) -> bool:
    if one.all_cores and other.all_cores:
        return True
    return bool(_shared(one, other))


def _shared(one: Request, other: Request) -> frozenset[int]:
    """The cores that both name; one of them may have all but those that it leaves to others."""
    if one.all_cores:
        return other.cores - one.reserved
    return one.cores - other.reserved if other.all_cores else one.cores & other.cores


def _cores(one: Request, others: Iterable[Request]) -> str:
    """The cores of `one` that any of the others names too."""
    cores: set[int] = set()
    for other in others:
        if one.all_cores and other.all_cores:
            return "all cores"
        cores |= _shared(one, other)
    return f"cores {','.join(ranges_of(cores))}"


def _list(names: Collection[str], separator: str = ", ") -> str:
    shown = list(names)[:_NAMED]
    return separator.join([*shown, f"{len(names) - _NAMED} more"] if len(names) > _NAMED else shown)
