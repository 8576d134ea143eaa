"""The verdict on a Tenant: what the doctor finds of it, over its DPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from app.doctor import acting, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding
from app.doctor.objects import Object
from app.kube.resources import NODES
from app.placement.checks import Dpus, dpus_of
from app.tenancy.checks import bounded, is_late, links_of, nodes_and_hosts, of_agent, reported
from app.tenancy.model import AGENT_CONNECTED, CONNECTED, SUSPENDED, tenant_problems, tenant_state
from app.tenancy.why import nodes
from app.tenancy.why.trust import trusted_by_gateway
from app.text import moment, several
from app.why.calls import home_of
from app.why.model import Asking, State, Verdict, broken, fine, judged, listed, of_findings, or_else, read
from app.why.standing import by_conditions, describe
from app.wire import JSON
from app.workloads.model import TENANTS, tenant_namespace

_LOOKED_AT = 50
"""DPUs of one tenant that are judged."""


def judge_tenant(it: Object, now: datetime) -> Asking[Verdict | None]:
    """Whether a tenant is served: its agent, its certificates, its namespace, its DPUs."""
    if it.json["metadata"].get("deletionTimestamp"):
        return by_conditions(it, now)
    if not it.json["metadata"].get("uid"):
        problems = tuple(tenant_problems(it.json))
        return broken("would be refused", because=problems) if problems else fine("would be created")
    dpus = yield from or_else(read(dpus_of), None)
    findings = yield from _findings(it, now, dpus)
    connected, text = objects.condition(it.json, CONNECTED), _text(it, findings)
    suspended = objects.spec(it.json).get("suspended")
    verdict = of_findings(text, findings) or fine(text)
    since = moment(objects.condition(it.json, "Ready" if suspended else CONNECTED).get("lastTransitionTime"))
    verdict = replace(verdict, since=since, asks=_asks(it, dpus), more=verdict.more or describe(it))
    if suspended and connected.get("reason") in (SUSPENDED, None):
        so = "the gateway turns its agents away; its companions stay as they are, and changes of its cluster wait"
        because = tuple(cause for cause in verdict.because if cause != "is suspended")
        verdict = replace(verdict, because=("spec.suspended is true", *because), so=so)
    return (yield from _over_dpus(it, verdict, dpus))


def _findings(it: Object, now: datetime, dpus: Dpus | None) -> Asking[list[Finding]]:
    tenants = yield from or_else(listed(TENANTS), [it])
    trusted = yield from or_else(read(trusted_by_gateway), None)
    namespace, links = (yield from read(home_of)), links_of([tenant.json for tenant in tenants])
    findings = [*reported(it, namespace), *of_agent(it, links, namespace, trusted, now)]
    if is_late(it, now):
        findings.append((yield from read(partial(_late, it=it), key=("late", it.subject))))
    if dpus is not None:
        mine = replace(dpus, nodes=[node for node in dpus.nodes if _may_be_of(it.name, node, dpus)])
        findings += nodes_and_hosts([it.json], mine)
    bounds = yield from or_else(read(_bounds), [])
    return [*findings, *(finding for finding in bounds if f" {tenant_namespace(it.name)}/" in finding.subject)]


def _may_be_of(tenant: str, node: JSON, dpus: Dpus) -> bool:
    """But for DPUs of other tenants without a host, which are theirs to know."""
    own = objects.labels(node)
    return bool(own.get(dpus.host_label)) or own.get(dpus.tenant_label) == tenant


async def _late(cluster: Cluster, it: Object) -> Finding:
    return await acting.late(cluster, "controller", "BERTH2003", [it.subject])


async def _bounds(cluster: Cluster) -> list[Finding]:
    return [finding async for finding in bounded(cluster)]


def _text(it: Object, findings: Sequence[Finding]) -> str:
    state, reason = tenant_state(it.json), objects.condition(it.json, CONNECTED).get("reason")
    if state == "suspended" or reason is None:
        return state
    if reason != AGENT_CONNECTED:
        return f"{state}, its agent is not connected"
    if any(finding.code == "BERTH2010" for finding in findings):
        return f"{state}, connected, and will be cut off when its agent connects again"
    return f"{state}, its agent is connected"


def _asks(it: Object, dpus: Dpus | None) -> str:
    hosts = objects.spec(it.json).get("hosts")
    parts = [] if hosts is None else [several(len(hosts), "host")]
    if dpus is not None:
        own = dpus.of_tenant(it.name)
        ready = sum(objects.condition(node, "Ready").get("status") in (None, "True") for node in own)
        parts.append(f"{several(len(own), 'DPU')}, {ready} ready")
    return "; ".join(parts)


def _over_dpus(it: Object, verdict: Verdict, dpus: Dpus | None) -> Asking[Verdict]:
    """The verdict, with the first DPU that takes no companions behind it."""
    for node in _bad(dpus.of_tenant(it.name) if dpus is not None else ()):
        judgement = yield from or_else(judged(NODES, node["metadata"]["name"]), None)
        if judgement is not None and judgement.state:
            state = max(verdict.state, State.waits)
            return replace(verdict, state=state).after(judgement, of=f"Node {node['metadata']['name']}")
    return verdict


def _bad(nodes: Sequence[JSON]) -> Iterator[JSON]:
    """The first nodes that take no Pods."""
    bad = (
        node
        for node in nodes
        if objects.spec(node).get("unschedulable")
        or objects.condition(node, "Ready").get("status") not in (None, "True")
    )
    yield from (node for node, _ in zip(bad, range(_LOOKED_AT), strict=False))


JUDGES = {TENANTS: judge_tenant, **nodes.JUDGES}
