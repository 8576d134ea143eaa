"""Finds others that inject into the same Pods: another release of Berth, another registration, another injector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from app.doctor.cluster import Cluster
from app.doctor.commands import unregister
from app.doctor.model import Finding, Severity
from app.doctor.webhooks import Registered, of_all_releases
from app.kube.resources import MUTATING_WEBHOOKS

_CHECK = "registrations"
_FORERUNNER = "network-resources-injector-mutating-config"
_TWICE = "each Pod waits for two answers, and the failurePolicy of either keeps it out"


async def rivals(cluster: Cluster, found: Sequence[Registered]) -> list[Finding]:
    """Those beside `found`, which is what calls this release. Raises ApiError."""
    ours = list(dict.fromkeys(one.name for one in found if _injects(one)))
    if not ours:
        return []
    everybody = [one for one in await of_all_releases(cluster) if _injects(one)]
    others = {one.name: one for one in everybody if one.name not in ours}
    findings = list(_releases(cluster, others.values()))
    for name in ours[1:]:
        text = f"has Berth called for the same Pods as {ours[0]}"
        findings.append(_finding(name, text, f"{_TWICE}; what is injected is injected once", unregister(name)))
    for configuration in await cluster.listed(MUTATING_WEBHOOKS) or []:
        name = configuration["metadata"]["name"]
        if name not in (*ours, *others) and name.endswith(_FORERUNNER):
            text = f"injects into the same Pods as {ours[0]}"
            command = f"kubectl delete {MUTATING_WEBHOOKS.plural} {name}"
            findings.append(_finding(name, text, "resources are asked for twice, and Pods stay Pending", command))
    return findings


def _releases(cluster: Cluster, others: Iterable[Registered]) -> Iterator[Finding]:
    for one in others:
        release = one.release or one.name
        text = f"belongs to release {release} in namespace {one.home}, and injects into the same Pods as this release"
        follows = (
            f"{_TWICE}; where their settings differ, a Pod gets what either would inject. One of the two releases is "
            f"enough: the command takes away the other, and `helm uninstall {cluster.release} --namespace "
            f"{cluster.namespace}` takes away this one"
        )
        command = f"helm uninstall {release} --namespace {one.home}" if one.by_chart else unregister(one.name)
        yield _finding(one.name, text, follows, command)


def _injects(one: Registered) -> bool:
    return one.mutating and one.covers("", "pods", "CREATE")


def _finding(name: str, text: str, follows: str, command: str) -> Finding:
    return Finding(_CHECK, Severity.warning, f"{MUTATING_WEBHOOKS.kind} {name}", text, follows, command)
