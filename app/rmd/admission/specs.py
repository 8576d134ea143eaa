"""What is wrong with the specs of RmdWorkloads and of the RmdConfig, beside what a daemon says. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from app.kube.names import check_dns_subdomain, check_label_key, check_label_value
from app.kube.owners import controller_of
from app.pace import step
from app.rmd.admission.hosts import Hosts
from app.rmd.cores import ranges_of
from app.rmd.pods import INFIX
from app.rmd.requests import MOST_LABELS, Request
from app.text import cut, quoted, several
from app.wire import JSON

_NAMED = 3
"""Nodes that a warning names."""


def workload_problems(request: Request) -> Iterator[str]:
    """Names of nodes, and labels, that no node can have."""
    for index, node in enumerate(request.nodes):
        step()
        yield from _fault(f"spec.nodes[{index}]", check_dns_subdomain, node)
    yield from _selector_problems("spec.nodeSelector", request.node_selector)


def config_problems(spec: JSON) -> Iterator[str]:
    selector: Mapping[str, str] = spec.get("rmdNodeSelector") or {}
    if len(selector) > MOST_LABELS:
        yield f"spec.rmdNodeSelector: want at most {MOST_LABELS}, got {len(selector)}"
    else:
        yield from _selector_problems("spec.rmdNodeSelector", selector)
    image = str(spec.get("rmdImage") or "")
    if image != image.strip() or " " in image:
        yield f"spec.rmdImage: want the name of an image without spaces, got {quoted(image)}"


def unknown_nodes(request: Request, hosts: Hosts) -> Iterator[str]:
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


def missing_cores(request: Request, hosts: Hosts) -> Iterator[str]:
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
            for node, cpus in lacking[:_NAMED]
        )
        more = f"; and {several(len(lacking) - _NAMED, 'more node')}" if len(lacking) > _NAMED else ""
        yield f"spec.coreIds: want cores of the machine: {shown}{more}: nothing is reserved there"


def _beyond(request: Request, cpus: int) -> str:
    return cut(",".join(ranges_of(core for core in request.cores if core >= cpus)))


def managed(obj: JSON) -> Iterator[str]:
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
