"""Checks RmdWorkloads and the RmdConfig: what no daemon will take, and what may keep one from taking it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from app.admission.chain import Plan, refuse
from app.admission.naming import home_of
from app.admission.reading import readable
from app.admission.review import Request as AdmissionRequest
from app.admission.review import old_object, written_object
from app.kube.names import check_dns_subdomain, check_label_key, check_label_value
from app.kube.owners import controller_of
from app.kube.store import Store
from app.pace import step
from app.rmd.admission.hosts import Hosts
from app.rmd.admission.overlaps import Held, neighbors, overlaps
from app.rmd.cores import ranges_of
from app.rmd.model import GROUP, RMD_CONFIGS, RMD_WORKLOADS
from app.rmd.pods import INFIX
from app.rmd.requests import MOST_LABELS, Request, read_spec
from app.text import cut, quoted, several
from app.wire import JSON, encode_sorted

_SERVICE_ACCOUNT = "system:serviceaccount:"
_NAMED = 3
"""Nodes that a warning names."""


class RmdObjectCheck:
    """Neutral to everything but RmdWorkloads and RmdConfigs, and to updates that leave the spec as it was."""

    def __init__(self, hosts: Hosts, held: Store[Held]) -> None:
        self._hosts, self._held = hosts, held

    def check(self, request: AdmissionRequest, plan: Plan) -> None:
        """Raises Denied with every problem."""
        kinds = (RMD_WORKLOADS.kind, RMD_CONFIGS.kind)
        if request.kind.group != GROUP or request.kind.kind not in kinds:
            return
        reason = f"Invalid{request.kind.kind}"
        obj, old = written_object(request, reason=reason), old_object(request, reason=reason)
        if obj is None:
            return
        spec: JSON = obj.get("spec") or {}
        if old is not None and readable(lambda: _same(spec, old.get("spec") or {}), reason=reason):
            return
        if request.kind.kind == RMD_CONFIGS.kind:
            refuse(readable(lambda: list(_config_problems(spec)), reason=reason), reason=reason)
        else:
            problems, warnings = readable(lambda: self._workload(request, obj, spec), reason=reason)
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
            for node, cpus in lacking[:_NAMED]
        )
        more = f"; and {several(len(lacking) - _NAMED, 'more node')}" if len(lacking) > _NAMED else ""
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
