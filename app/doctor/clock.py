"""Check `clock`: do this machine, the API server and the nodes of Berth agree about the time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.certs.issuing import CLOCK_SKEW
from app.doctor.cluster import Cluster
from app.doctor.installed import installed
from app.doctor.model import Finding, Severity
from app.errors import ApiError
from app.kube.resources import LEASES, PODS
from app.text import moment

_CHECK = "clock"
_NODE_LEASES = "kube-node-lease"
NOTICED = timedelta(seconds=5)
"""A difference that leaves other causes aside: the header has whole seconds, and a request takes its time."""
_MEND = "timedatectl set-ntp true"


@dataclass(frozen=True, slots=True)
class Clock:
    name: str = _CHECK

    async def run(self, cluster: Cluster) -> list[Finding]:
        skew = await skew_of_server(cluster)
        if skew is None:
            return [Finding(_CHECK, Severity.info, "API server", "does not say its time: clocks were not compared")]
        findings = list(_here(skew))
        findings += await _nodes(cluster, cluster.now() + skew)
        if not findings:
            text = f"this machine and the API server differ by less than {NOTICED.seconds} s"
            findings.append(Finding(_CHECK, Severity.ok, "", text))
        return findings


async def skew_of_server(cluster: Cluster) -> timedelta | None:
    """How far the API server's clock is ahead of ours, asked once; None where it does not say."""

    async def ask() -> timedelta | None:
        before = cluster.now()
        there = await cluster.client.server_time()
        after = cluster.now()
        if there is None:
            return None
        # The header is cut to whole seconds: on the average the time is half a second later.
        return there + timedelta(seconds=0.5) - (before + (after - before) / 2)

    found: timedelta | None = await cluster.once("clock", ask)
    return found


def _here(skew: timedelta) -> Iterator[Finding]:
    if abs(skew) < NOTICED:
        return
    bad = abs(skew) >= CLOCK_SKEW
    text = f"its clock is {_seconds(skew)} {'ahead of' if skew < timedelta() else 'behind'} the API server's"
    consequence = (
        "certificates that are made here are not valid yet, or expired already, where they are used"
        if bad
        else "ages and expiry in this report are off by that; certificates are made with an allowance of five minutes"
    )
    yield Finding(_CHECK, Severity.error if bad else Severity.warning, "this machine", text, consequence, _MEND)


async def _nodes(cluster: Cluster, there: datetime) -> list[Finding]:
    """Kubelets renew their Leases by their own clocks every ten seconds. A Lease from the future is a clock's fault."""
    findings: list[Finding] = []
    for node in await _nodes_of_berth(cluster):
        try:
            lease = await cluster.get(LEASES, node, namespace=_NODE_LEASES)
        except ApiError:
            return findings  # rarely granted, and only a second look
        renewed = moment(((lease or {}).get("spec") or {}).get("renewTime"))
        if renewed is not None and renewed - there >= NOTICED:
            text = f"its clock is {_seconds(renewed - there)} ahead of the API server's"
            findings.append(
                Finding(
                    _CHECK,
                    Severity.error if renewed - there >= CLOCK_SKEW else Severity.warning,
                    f"Node {node}",
                    text,
                    "Berth runs there: certificates that it makes are not valid yet for others",
                    f"kubectl debug node/{node} -it --image=busybox -- chroot /host {_MEND}",
                )
            )
    return findings


async def _nodes_of_berth(cluster: Cluster) -> list[str]:
    try:
        roles = await installed(cluster)
        pods = [
            pod
            for role in roles
            for pod in await cluster.listed(PODS, namespace=role.namespace, label_selector=role.selector) or []
        ]
    except ApiError:
        return []  # the check of Deployments says so
    return sorted({name for pod in pods if (name := (pod.get("spec") or {}).get("nodeName"))})


def _seconds(skew: timedelta) -> str:
    return f"{abs(skew).total_seconds():.0f} s"
