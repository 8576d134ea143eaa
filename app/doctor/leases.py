"""Check `leases`: is one replica of controller and agent at work, and does it renew its Lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from app.doctor.clock import NOTICED, skew_of_server
from app.doctor.cluster import Cluster
from app.doctor.commands import restart
from app.doctor.installed import Installed, installed
from app.doctor.model import Finding, Severity
from app.doctor.objects import kubectl, plain
from app.errors import ApiError
from app.kube.resources import LEASES, PODS
from app.registry import BY_NAME
from app.text import moment

_CHECK = "leases"


@dataclass(frozen=True, slots=True)
class Leases:
    name: str = _CHECK

    async def run(self, cluster: Cluster) -> list[Finding]:
        skew = await skew_of_server(cluster)
        there = cluster.now() + (skew or timedelta())
        working = [one for one in await installed(cluster) if BY_NAME[one.role].lease]
        return [await _judged(cluster, one, there) for one in working if one.switch("--leader-elect", default=True)]


async def _judged(cluster: Cluster, one: Installed, there: datetime) -> Finding:
    namespace = one.home
    role = BY_NAME[one.role]
    name = role.lease
    subject = f"Lease {namespace}/{name}"
    fix = restart(one.namespace, one.name)
    lease = await cluster.get(LEASES, name, namespace=namespace)
    spec = (lease or {}).get("spec") or {}
    holder, renewed = str(spec.get("holderIdentity") or ""), moment(spec.get("renewTime"))
    if lease is None or not holder or renewed is None:
        text = "is not there: no replica ever worked" if lease is None else "has no holder"
        if holder:
            text = f"is held by {plain(holder)}, which does not say when it renewed it: no replica takes it over"
            fix = kubectl("delete", "lease", name, namespace=namespace)
        return Finding(_CHECK, Severity.error, subject, text, role.when_idle, fix)
    age, duration = there - renewed, timedelta(seconds=spec.get("leaseDurationSeconds") or 15)
    if age > duration:
        text = f"was last renewed {age.total_seconds():.0f} s ago by {holder}, and is good for {duration.seconds} s"
        consequence = f"no replica works, or its node's clock is behind: {role.when_idle}"
        return Finding(_CHECK, Severity.error, subject, text, consequence, fix)
    if age < -NOTICED:
        text = f"is renewed by {holder} with a time {-age.total_seconds():.0f} s ahead of the API server's"
        consequence = "that node's clock is wrong; ages and certificates from there are off"
        return Finding(_CHECK, Severity.warning, subject, text, consequence, await _clock_fix(cluster, one, holder))
    transitions = spec.get("leaseTransitions") or 0
    text = f"is held by {holder}, renewed {max(0.0, age.total_seconds()):.0f} s ago, {transitions} changes so far"
    return Finding(_CHECK, Severity.ok, subject, text)


async def _clock_fix(cluster: Cluster, one: Installed, holder: str) -> str:
    """Sets the clock of the node on which the holder (`<Pod>_<random>`) runs; shows the nodes where it is not known."""
    pod = holder.rpartition("_")[0]
    try:
        found = await cluster.get(PODS, pod, namespace=one.namespace) if pod else None
    except ApiError:
        found = None
    node = ((found or {}).get("spec") or {}).get("nodeName")
    if not node:
        return kubectl("get", "pods", "--selector", one.selector, "--output", "wide", namespace=one.namespace)
    return f"kubectl debug node/{node} -it --image=busybox -- chroot /host timedatectl set-ntp true"
