"""Checks of time: `clock`, whether clocks agree, and `leases`, whether the holder of each Lease renews it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from app.certs.issuing import CLOCK_SKEW
from app.doctor.cluster import Cluster
from app.doctor.commands import kubectl, restart, set_clock
from app.doctor.installed import Installed
from app.doctor.model import (
    Check,
    Finding,
    Severity,
    all_well,
    depends_on,
    error,
    info,
    noted,
    ok,
    or_default,
    plain,
    warning,
)
from app.kube.resources import LEASES, PODS
from app.text import moment, several

_NODE_LEASES = "kube-node-lease"
_NOTICED = timedelta(seconds=5)
"""A difference that leaves other causes aside: the header has whole seconds, and a request takes its time."""


async def _clock(cluster: Cluster) -> AsyncIterator[Finding]:
    skew = await cluster.skew()
    if skew is None:
        yield info("BERTH0101", "API server", "does not say its time: clocks were not compared")
        return
    if abs(skew) >= _NOTICED:
        follows = (
            "ages and expiry in this report are off by that; certificates are made with an allowance of five minutes"
        )
        if abs(skew) >= CLOCK_SKEW:
            follows = "certificates that are made here are not valid yet, or expired already, where they are used"
        where = "ahead of" if skew < timedelta() else "behind"
        text = f"its clock is {abs(skew).total_seconds():.0f} s {where} the API server's"
        yield noted(_how_bad(skew), "BERTH0102", "this machine", text, follows, "timedatectl set-ntp true")
    # Kubelets renew their Leases by their own clocks every ten seconds. A Lease from the future is a clock's fault.
    for node in await or_default(_nodes_of_berth(cluster), []):
        # The right is rarely granted, and this is only a second look.
        lease = await or_default(cluster.get(LEASES, node, namespace=_NODE_LEASES), None)
        renewed = moment(((lease or {}).get("spec") or {}).get("renewTime"))
        ahead = renewed - cluster.now() - skew if renewed else timedelta()
        if ahead >= _NOTICED:
            text = f"its clock is {ahead.total_seconds():.0f} s ahead of the API server's"
            follows = "Berth runs there: certificates that it makes are not valid yet for others"
            yield noted(_how_bad(ahead), "BERTH0103", f"Node {node}", text, follows, set_clock(node))
    yield all_well("", f"this machine and the API server differ by less than {_NOTICED.seconds} s")


def _how_bad(skew: timedelta) -> Severity:
    return Severity.error if abs(skew) >= CLOCK_SKEW else Severity.warning


async def _nodes_of_berth(cluster: Cluster) -> list[str]:
    pods = [
        pod
        for role in await cluster.installed()
        for pod in await cluster.listed(PODS, namespace=role.namespace, label_selector=role.selector)
    ]
    return sorted({name for pod in pods if (name := (pod.get("spec") or {}).get("nodeName"))})


async def _leases(cluster: Cluster) -> AsyncIterator[Finding]:
    there = cluster.now() + (await cluster.skew() or timedelta())
    for one in await cluster.installed():
        if one.descriptor.lease and one.deployed.get("leader_elect", True):
            yield await _judged(cluster, one, there)


async def _judged(cluster: Cluster, one: Installed, there: datetime) -> Finding:
    namespace, role = one.home, one.descriptor
    subject, fix = f"Lease {namespace}/{role.lease}", restart(one)
    because = depends_on(one.role)
    lease = await cluster.get(LEASES, role.lease, namespace=namespace)
    spec = (lease or {}).get("spec") or {}
    holder, renewed = str(spec.get("holderIdentity") or ""), moment(spec.get("renewTime"))
    if not holder:
        text = "is not there: no replica ever worked" if lease is None else "has no holder"
        return error("BERTH0401", subject, text, role.when_idle, fix, because=because)
    if renewed is None:
        text = f"is held by {plain(holder)}, which does not say when it renewed it: no replica takes it over"
        return error(
            "BERTH0402", subject, text, role.when_idle, kubectl("delete", "lease", role.lease, namespace=namespace)
        )
    age, duration = there - renewed, timedelta(seconds=spec.get("leaseDurationSeconds") or 15)
    if age > duration:
        text = f"was last renewed {age.total_seconds():.0f} s ago by {holder}, and is good for {duration.seconds} s"
        return error(
            "BERTH0403",
            subject,
            text,
            f"no replica works, or its node's clock is behind: {role.when_idle}",
            fix,
            because=because,
        )
    if age < -_NOTICED:
        text = f"is renewed by {holder} with a time {-age.total_seconds():.0f} s ahead of the API server's"
        return warning("BERTH0404", subject, text, command=await _clock_fix(cluster, one, holder))
    changes, seconds = several(spec.get("leaseTransitions") or 0, "change"), max(0.0, age.total_seconds())
    text = f"is held by {holder}, renewed {seconds:.0f} s ago, {changes} so far"
    return ok(subject, text)


async def _clock_fix(cluster: Cluster, one: Installed, holder: str) -> str:
    """Sets the clock of the node on which the holder (`<Pod>_<random>`) runs; shows the nodes where it is not known."""
    pod = holder.rpartition("_")[0]
    found = await or_default(cluster.get(PODS, pod, namespace=one.namespace), None) if pod else None
    if node := ((found or {}).get("spec") or {}).get("nodeName"):
        return set_clock(node)
    return kubectl("get", "pods", "--selector", one.selector, "--output", "wide", namespace=one.namespace)


CLOCK_CHECK = Check("clock", (_clock,))
LEASES_CHECK = Check("leases", (_leases,))
