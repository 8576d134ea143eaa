"""Checks of time: `clock`, whether clocks agree, and `leases`, whether the holder of each Lease renews it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from app.certs.issuing import CLOCK_SKEW
from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.commands import kubectl, restart, set_clock
from app.doctor.installed import Installed
from app.doctor.model import Check, Finding, Severity, all_well, depends_on, error, info, noted, ok, or_default, warning
from app.kube.resources import LEASES, PODS
from app.text import moment, several

_NODE_LEASES = "kube-node-lease"
_NOTICED = timedelta(seconds=5)
"""A difference that leaves other causes aside: the header has whole seconds, and a request takes its time."""


async def _clock(cluster: Cluster) -> AsyncIterator[Finding]:
    skew = await cluster.skew()
    if skew is None:
        yield info("BERTH0101", "API server")
        return
    if abs(skew) >= _NOTICED:
        where, severity = "ahead of" if skew < timedelta() else "behind", _how_bad(skew)
        seconds = abs(skew).total_seconds()
        yield noted(severity, "BERTH0102", "this machine", case=severity.name, seconds=seconds, where=where)
    # Kubelets renew their Leases by their own clocks every ten seconds. A Lease from the future is a clock's fault.
    for node in await or_default(_nodes_of_berth(cluster), []):
        # The right is rarely granted, and this is only a second look.
        lease = await or_default(cluster.get(LEASES, node, namespace=_NODE_LEASES), None)
        renewed = moment(objects.spec(lease).get("renewTime"))
        ahead = renewed - cluster.now() - skew if renewed else timedelta()
        if ahead >= _NOTICED:
            seconds, fix = ahead.total_seconds(), set_clock(node)
            yield noted(_how_bad(ahead), "BERTH0103", f"Node {node}", seconds=seconds, command=fix)
    yield all_well("", f"this machine and the API server differ by less than {_NOTICED.seconds} s")


def _how_bad(skew: timedelta) -> Severity:
    return Severity.error if abs(skew) >= CLOCK_SKEW else Severity.warning


async def _nodes_of_berth(cluster: Cluster) -> list[str]:
    pods = [
        pod
        for role in await cluster.installed()
        for pod in await cluster.listed(PODS, namespace=role.namespace, label_selector=role.selector)
    ]
    return sorted({name for pod in pods if (name := objects.spec(pod).get("nodeName"))})


async def _leases(cluster: Cluster) -> AsyncIterator[Finding]:
    there = cluster.now() + (await cluster.skew() or timedelta())
    for deployment in await cluster.installed():
        if deployment.descriptor.lease and deployment.deployed.get("leader_elect", True):
            yield await _judged(cluster, deployment, there)


async def _judged(cluster: Cluster, deployment: Installed, there: datetime) -> Finding:
    about, fix, because = (
        objects.named(LEASES, deployment.descriptor.lease, deployment.home),
        restart(deployment),
        depends_on(deployment.role),
    )
    lease = await cluster.get(LEASES, about.name, namespace=about.namespace)
    spec, idle = objects.spec(lease), deployment.descriptor.when_idle
    holder, renewed = str(spec.get("holderIdentity") or ""), moment(spec.get("renewTime"))
    if not holder:
        case = "missing" if lease is None else ""
        return error("BERTH0401", about, case=case, consequence=idle, command=fix, because=because)
    if renewed is None:
        return error("BERTH0402", about, consequence=idle, holder=holder)
    age, good = (there - renewed).total_seconds(), int(spec.get("leaseDurationSeconds") or 15)
    if age > good:
        return error("BERTH0403", about, command=fix, because=because, age=age, holder=holder, good=good, idle=idle)
    if age < -_NOTICED.total_seconds():
        fix = await _clock_fix(cluster, deployment, holder)
        return warning("BERTH0404", about, holder=holder, ahead=-age, command=fix)
    changes = several(spec.get("leaseTransitions") or 0, "change")
    return ok(about.subject, f"is held by {holder}, renewed {max(0.0, age):.0f} s ago, {changes} so far")


async def _clock_fix(cluster: Cluster, deployment: Installed, holder: str) -> str:
    """Sets the clock of the node on which the holder (`<Pod>_<random>`) runs; shows the nodes where it is not known."""
    pod = holder.rpartition("_")[0]
    obj = await or_default(cluster.get(PODS, pod, namespace=deployment.namespace), None) if pod else None
    if node := objects.spec(obj).get("nodeName"):
        return set_clock(node)
    return kubectl("get", "pods", "--selector", deployment.selector, "--output", "wide", namespace=deployment.namespace)


CLOCK_CHECK = Check("clock", (_clock,))
LEASES_CHECK = Check("leases", (_leases,))
