"""Checks RmdWorkloads and the RmdConfig: what no daemon will take, and what may keep one from taking it.

Of RmdWorkloads that ask for the same cores of the same node, a daemon takes the first alone. Of nodes, reviews see the
labels, and the cache ways that they announce.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.admission.chain import MutationPlan, refuse
from app.admission.decision import counted, home_of, may_name, read_or_deny
from app.admission.review import Request as AdmissionRequest
from app.admission.review import old_object, written_object
from app.kube.derived import Summary
from app.kube.names import check_dns_subdomain, check_label_key, check_label_value
from app.kube.quantity import QuantityError, parse, parse_integer
from app.kube.resources import controller_of
from app.kube.store import Key, Store, key_of
from app.pace import step
from app.rmd.cores import ranges_of
from app.rmd.model import GROUP, L3_CACHE_WAYS, RMD_CONFIGS, RMD_WORKLOADS
from app.rmd.pods import INFIX
from app.rmd.requests import MOST_LABELS, Request, read_spec
from app.text import cut, quoted, several
from app.wire import JSON, encode_sorted

_SHOWN = 5
"""Others that are named."""
BY_NODE = "node"
"""The index of stored RmdWorkloads by the nodes that they name."""
_SELECTING = ""
"""Stands in that index for all nodes: those of a selector change with the labels of nodes."""
_SERVICE_ACCOUNT = "system:serviceaccount:"
_NAMED_NODES = 3
"""Nodes that a warning names."""
_MOST_SELECTORS = 8
"""Of which the nodes are kept: in a large cluster those of one take half a mebibyte."""
_Labels = frozenset[tuple[str, str]]


class RmdObjectCheck:
    """Neutral to everything but RmdWorkloads and RmdConfigs, and to updates that leave the spec as it was."""

    def __init__(self, hosts: Hosts, held: Store[Held]) -> None:
        self._hosts, self._held = hosts, held

    def check(self, request: AdmissionRequest, plan: MutationPlan) -> None:
        """Raises Denied with every problem."""
        kinds = (RMD_WORKLOADS.kind, RMD_CONFIGS.kind)
        if request.kind.group != GROUP or request.kind.kind not in kinds:
            return
        reason = f"Invalid{request.kind.kind}"
        obj, old = written_object(request, reason=reason), old_object(request, reason=reason)
        if obj is None:
            return
        spec: JSON = obj.get("spec") or {}
        if old is not None and read_or_deny(lambda: _same(spec, old.get("spec") or {}), reason=reason):
            return
        if request.kind.kind == RMD_CONFIGS.kind:
            refuse(read_or_deny(lambda: list(_config_problems(spec)), reason=reason), reason=reason)
        else:
            problems, warnings = read_or_deny(lambda: self._workload(request, obj, spec), reason=reason)
            plan.warnings += warnings
            refuse(problems, reason=reason)

    def _workload(self, request: AdmissionRequest, obj: JSON, spec: JSON) -> tuple[list[str], list[str]]:
        read = read_spec(spec)
        problems = [*read.problems, *_workload_problems(read.request)]
        warnings = [*read.warnings]
        # The node agent is one.
        if not request.user_info.username.startswith(_SERVICE_ACCOUNT):
            warnings += _managed(obj)
        if not problems:
            key = request.namespace, request.name or str(obj["metadata"].get("name") or "")
            warnings += _unknown_nodes(read.request, self._hosts)
            warnings += _missing_cores(read.request, self._hosts)
            others = neighbors(read.request, self._held, self._hosts)
            warnings += overlaps(Held(key, read.request), others, self._hosts, home=home_of(request))
        return problems, warnings


def _same(spec: JSON, old: JSON) -> bool:
    return encode_sorted(spec) == encode_sorted(old)


def _workload_problems(request: Request) -> Iterator[str]:
    """Names of nodes, and labels, that no node can have."""
    for index, node in enumerate(request.nodes):
        step()
        yield from _fault(f"spec.nodes[{index}]", check_dns_subdomain, node)
    yield from _selector_problems("spec.nodeSelector", request.node_selector)


def _config_problems(spec: JSON) -> Iterator[str]:
    selector: Mapping[str, str] = spec.get("rmdNodeSelector") or {}
    if len(selector) > MOST_LABELS:
        yield f"spec.rmdNodeSelector: want at most {MOST_LABELS}, got {len(selector)}"
    else:
        yield from _selector_problems("spec.rmdNodeSelector", selector)
    image = str(spec.get("rmdImage") or "")
    if image != image.strip() or " " in image:
        yield f"spec.rmdImage: want the name of an image without spaces, got {quoted(image)}"


def _unknown_nodes(request: Request, hosts: Hosts) -> Iterator[str]:
    """They may come yet."""
    if not hosts:
        return
    if request.node_selector:
        if not hosts.selected(request.node_selector):
            yield "spec.nodeSelector: no node has these labels"
        return
    for index, node in enumerate(request.nodes):
        step()
        if node not in hosts:
            yield f"spec.nodes[{index}]: there is no node {node}"


def _missing_cores(request: Request, hosts: Hosts) -> Iterator[str]:
    """Cores beyond the CPUs of nodes. No denial: CPUs that are offline have numbers, and are not counted."""
    if request.all_cores or not request.cores:
        return
    last, lacking = max(request.cores), list[tuple[str, int]]()
    for node in sorted(hosts.selected(request.node_selector)) if request.node_selector else request.nodes:
        step()
        cpus = hosts.cpus_of(node)
        if cpus is not None and last >= cpus:
            lacking.append((node, cpus))
    if lacking:
        shown = "; ".join(
            f"{node} has {several(cpus, 'CPU')}, and no core {_beyond(request, cpus)}"
            for node, cpus in lacking[:_NAMED_NODES]
        )
        more = f"; and {several(len(lacking) - _NAMED_NODES, 'more node')}" if len(lacking) > _NAMED_NODES else ""
        yield f"spec.coreIds: want cores of the machine: {shown}{more}: nothing is reserved there"


def _beyond(request: Request, cpus: int) -> str:
    return cut(",".join(ranges_of(core for core in request.cores if core >= cpus)))


def _managed(obj: JSON) -> Iterator[str]:
    """Whether it is one of the node agent's, or has the name of one."""
    metadata: JSON = obj["metadata"]
    owner = controller_of(metadata)
    if owner.get("kind") == "Pod":
        yield (
            f"metadata.ownerReferences: the node agent writes it for Pod {owner['name']}, and undoes changes: "
            "change the annotations of the Pod"
        )
    elif INFIX in str(metadata.get("name") or ""):
        yield f"metadata.name: the node agent gives names with {INFIX}: want another, so that it can make its own"


def _selector_problems(field: str, selector: Mapping[str, str]) -> Iterator[str]:
    for key, value in selector.items():
        yield from _fault(f"{field}[{key}]", check_label_key, key)
        yield from _fault(f"{field}[{key}]", check_label_value, value)


def _fault(field: str, check: Callable[[str], str], text: str) -> Iterator[str]:
    try:
        check(text)
    except ValueError as error:
        yield f"{field}: {error}"


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


def overlaps(own: Held, others: Iterable[Held], hosts: Hosts, *, home: str) -> Iterator[str]:
    """Warnings: the others may go away, or their daemons may have refused them.

    RmdWorkloads of other namespaces than `home` are counted: their cores and nodes stand together, their names nowhere.
    """
    mine = hosts.selected(own.request.node_selector) if own.request.node_selector else frozenset(own.request.nodes)
    warnings: list[str] = []
    foreign: list[Request] = []
    on: set[str] = set()
    for other in sorted(others, key=lambda held: held.key):
        step()
        if other.key == own.key or not _share(own.request, other.request):
            continue
        nodes = _shared_nodes(mine, other.request, hosts)
        if not nodes:
            continue
        if may_name(other.key, home):
            cores = _cores(own.request, (other.request,))
            warnings.append(f"{cores} of {_list(sorted(nodes))} for {'/'.join(other.key)}")
        else:
            foreign.append(other.request)
            on |= nodes
    texts = [_list(warnings, "; ")] if warnings else []
    if foreign:
        texts.append(
            f"{_cores(own.request, foreign)} of {_list(sorted(on))} for {counted('RmdWorkload', len(foreign))}"
        )
    if texts:
        field = "spec.allCores" if own.request.all_cores else "spec.coreIds"
        yield f"{field}: a daemon gives a core to one RmdWorkload, and others ask for {'; '.join(texts)}"


def _shared_nodes(nodes: frozenset[str], request: Request, hosts: Hosts) -> frozenset[str]:
    if request.node_selector:
        return frozenset(node for node in nodes if hosts.matches(node, request.node_selector))
    return nodes.intersection(request.nodes)


def _share(request: Request, other: Request) -> bool:
    if request.all_cores and other.all_cores:
        return True
    return bool(_shared(request, other))


def _shared(request: Request, other: Request) -> frozenset[int]:
    """The cores that both name; one of them may have all but those that it leaves to others."""
    if request.all_cores:
        return other.cores - request.reserved
    return request.cores - other.reserved if other.all_cores else request.cores & other.cores


def _cores(request: Request, others: Iterable[Request]) -> str:
    """The cores of `request` that any of the others names too."""
    cores: set[int] = set()
    for other in others:
        if request.all_cores and other.all_cores:
            return "all cores"
        cores |= _shared(request, other)
    return f"cores {','.join(ranges_of(cores))}"


def _list(names: Collection[str], separator: str = ", ") -> str:
    shown = list(names)[:_SHOWN]
    return separator.join([*shown, f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else shown)


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
    """What is known of the nodes. What a review asks of all of them is computed once between two changes of a node."""

    def __init__(self, store: Store[Host]) -> None:
        self._store = store
        self._most_ways = Summary(store, lambda: max((host.ways for host in store.values()), default=None))
        self._selected = Summary(store, dict[_Labels, frozenset[str]])

    @property
    def most_ways(self) -> int | None:
        """The cache ways of the node with the most; None where no node is known."""
        return self._most_ways()

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

    def selected(self, selector: Mapping[str, str]) -> frozenset[str]:
        known, labels = self._selected(), frozenset(selector.items())
        if labels not in known:
            if len(known) >= _MOST_SELECTORS:
                known.clear()
            known[labels] = frozenset(name for _, name in self._store.keys() if self.matches(name, selector))  # noqa: SIM118  no mapping
        return known[labels]
