"""The verdict on a node: whose host or DPU it is, whether it takes Pods, and what it offers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from app.doctor import commands, objects
from app.doctor.catalog import listed as several_of
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import Finding
from app.doctor.objects import Object
from app.kube.resources import NODES, RESOURCE_SLICES
from app.placement.checks import Dpus, dpus_of
from app.tenancy.checks import nodes_and_hosts
from app.text import moment
from app.why.model import Asking, Verdict, absence, broken, fine, listed, of_findings, or_else, read, stuck, waits
from app.why.standing import describe
from app.wire import JSON
from app.workloads.model import TENANTS

_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_CORDON = "node.kubernetes.io/unschedulable"
_NOT_DEVICES = ("hugepages-", "attachable-volumes-")


def judge_node(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Whether a node takes Pods, and of which tenant."""
    dpus = yield from or_else(read(dpus_of), None)
    tenants = yield from or_else(listed(TENANTS), [])
    role = _role(it, tenants, dpus)
    devices = yield from or_else(read(partial(_devices, name=it.name), key=("devices", it.name)), Counter())
    offers = _offers(it, devices)
    text = "; ".join(filter(None, (role, offers)))
    if (bad := (yield from problem_of(it, tenants, dpus, text))) is not None:
        return bad
    return fine(_with("is ready", text), since=_since(objects.condition(it.json, "Ready")), more=describe(it))


def problem_of(it: Object, tenants: Sequence[Object], dpus: Dpus | None, text: str = "") -> Asking[Verdict | None]:
    """Why a node takes no Pods, or is not the DPU that it should be; `text` says whose it is. None of a good one."""
    problems = [problem for problem in (_health(it, text), (yield from _whose(it, tenants, dpus, text))) if problem]
    if not problems:
        return None
    first, *others = problems
    for other in others:
        first = first.after(other)
    return first


def _role(it: Object, tenants: Sequence[Object], dpus: Dpus | None) -> str:
    """Of a DPU its host and its tenant; of a host of a tenant its DPUs."""
    if dpus is None:
        return ""
    own = objects.labels(it.json)
    host, tenant = own.get(dpus.host_label), own.get(dpus.tenant_label) if dpus.tenant_label else None
    if host or tenant:
        return (
            f"DPU of {f'host {host}' if host else 'no host'}{f', of tenant {tenant}' if tenant else ', of no tenant'}"
        )
    if not (name := _tenant_with(it.name, tenants)):
        return ""
    nodes = _dpus_of(it.name, dpus)
    return f"host of tenant {name}, with {f'DPU {several_of(nodes)}' if nodes else 'no DPU'}"


def _tenant_with(host: str, tenants: Sequence[Object]) -> str:
    return next((it.name for it in tenants if host in (objects.spec(it.json).get("hosts") or ())), "")


def _health(it: Object, text: str) -> Verdict | None:
    """None of a node that takes Pods."""
    ready = objects.condition(it.json, "Ready")
    if ready.get("status") not in (None, "True"):
        so = "Pods on it are not known to run, and are moved after five minutes"
        cause = plain(ready.get("message") or ready.get("reason") or "it says no reason")
        return broken(_with("is not ready", text), since=_since(ready), because=(cause,), so=so, more=describe(it))
    if objects.spec(it.json).get("unschedulable"):
        taints = objects.spec(it.json).get("taints") or ()
        since = next((moment(taint.get("timeAdded")) for taint in taints if taint.get("key") == _CORDON), None)
        fix, so = commands.kubectl("uncordon", it.name), "no new Pod comes to it"
        return waits(_with("is cordoned", text), since=since, because=("spec.unschedulable is true",), so=so, fix=fix)
    pressures = [kind for kind in _PRESSURES if objects.condition(it.json, kind).get("status") == "True"]
    if pressures:
        causes = tuple(f"{kind}: {plain(objects.condition(it.json, kind).get('message'))}" for kind in pressures)
        return stuck(_with("takes no more Pods", text), because=causes, more=describe(it))
    return None


def _whose(it: Object, tenants: Sequence[Object], dpus: Dpus | None, text: str) -> Asking[Verdict | None]:
    """What is wrong with the labels by which placement knows a DPU, or with the DPU of a host."""
    if dpus is None or not tenants:
        return None
    own = objects.labels(it.json)
    host, tenant = own.get(dpus.host_label), own.get(dpus.tenant_label) if dpus.tenant_label else None
    if (bad := of_findings(text, _findings(it, dpus))) is not None:
        return bad
    if tenant and tenant not in {other.name for other in tenants}:
        clause, near = yield from absence(TENANTS, tenant)
        value = near or _tenant_with(host or "", tenants)
        fix = commands.set_label("node", it.name, dpus.tenant_label, value) if value else ""
        return stuck(text, because=(f"its label {dpus.tenant_label} is {tenant}: {clause}",), fix=fix)
    holder = _tenant_with(host, tenants) if host else ""
    if host and holder and tenant != holder and dpus.tenant_label:
        cause = f"host {host} is of tenant {holder}, and label {dpus.tenant_label} {_says(tenant)}"
        fix = commands.set_label("node", it.name, dpus.tenant_label, holder)
        return stuck(text, because=(cause,), so=f"no companion of tenant {holder} comes to it", fix=fix)
    if host and not holder and not tenant and any(objects.spec(other.json).get("hosts") for other in tenants):
        hosts = sorted(name for other in tenants for name in objects.spec(other.json).get("hosts") or ())
        return waits(text, because=(f"no Tenant has host {host} among its hosts ({several_of(hosts)})",))
    if not host and not tenant and _tenant_with(it.name, tenants) and not _dpus_of(it.name, dpus):
        so = "companions of the workloads of this host stay Pending"
        cause = f"no node has label {dpus.host_label}={it.name}"
        return stuck(text, because=(cause,), so=so, fix=dpus.label(it.name))
    return None


def _findings(it: Object, dpus: Dpus) -> list[Finding]:
    """What the doctor finds of this node."""
    return [*nodes_and_hosts([], Dpus([it.json], dpus.host_label, dpus.tenant_label))]


def _dpus_of(host: str, dpus: Dpus) -> list[str]:
    return [node["metadata"]["name"] for node in dpus.nodes if objects.labels(node).get(dpus.host_label) == host]


def _says(tenant: str | None) -> str:
    return f"says {tenant}" if tenant else "is missing"


def _offers(it: Object, devices: Counter[str]) -> str:
    """Extended resources, and devices of ResourceSlices by their drivers."""
    allocatable = objects.status(it.json).get("allocatable") or {}
    resources = {name: amount for name, amount in allocatable.items() if is_device(name)}
    offered = [f"{name} {amount}" for name, amount in sorted(resources.items())]
    offered += [f"{count} devices of {driver}" for driver, count in sorted(devices.items())]
    return f"offers {several_of(offered, 6)}" if offered else "offers no devices"


def is_device(resource: str) -> bool:
    """Whether a resource of nodes is neither one of Kubernetes itself nor huge pages."""
    return (
        "/" in resource
        and not resource.rpartition("/")[0].endswith("kubernetes.io")
        and not resource.startswith(_NOT_DEVICES)
    )


async def _devices(cluster: Cluster, name: str) -> Counter[str]:
    """How many devices of each driver ResourceSlices of the node have."""
    count = Counter[str]()
    async for body in cluster.paged(RESOURCE_SLICES, field_selector=f"spec.nodeName={name}"):
        spec = objects.spec(body)
        if spec.get("nodeName") == name:
            count[str(spec.get("driver"))] += len(spec.get("devices") or ())
    return count


def _with(what: str, text: str) -> str:
    return f"{what}; {text}" if text else what


def _since(condition: JSON) -> datetime | None:
    return moment(condition.get("lastTransitionTime"))


JUDGES = {NODES: judge_node}
