"""Checks of the workloads wing: `rules` and `companions`.

`rules` finds rules and UVS objects whose status reports a problem, or whose status is out of date; `companions` those
that do not start, those that do not end, and Pods that only look like companions.

In an infra cluster `rules` reads the stored rules, in a tenant's cluster the objects that its users wrote. The
controller and the agent judge these objects and write the statuses; the check reports what the statuses say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

from app.doctor import acting, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, depends_on, error, guarded, more_of, of_each, or_default, sound, topic
from app.kube.resources import PODS, Resource
from app.placement.checks import dpus_of
from app.text import several
from app.why.inquiry import Inquiry
from app.why.standing import describe
from app.wire import JSON
from app.workloads import model as workloads
from app.workloads.why.companions import PATIENCE, examined
from app.workloads.why.rules import WATCHERS, Near, conditions, cut_off, misplaced, nearest, reported

_MOST = 100
_COMPARED = 20
"""Rules that match nothing of which the nearest workload is said."""
_MENDED = 20
"""Rules whose companions do not run of which the cause is looked for: each reads its companions."""


async def _rules(cluster: Cluster) -> AsyncIterator[Finding]:
    # The workloads of a rule are those of all namespaces.
    count, most = Counter[Resource](), 0 if cluster.scope else _COMPARED
    compared = _Compared(Inquiry(cluster, many=True), most)
    findings = [
        finding
        for resource, role in WATCHERS.items()
        # Who has the ClusterRole `view` reads no Secrets, and no UVSSecrets.
        if not (cluster.scope and resource == workloads.UVS_SECRETS)
        async for finding in guarded(_of_kind(cluster, resource, role, count, compared))
    ]
    if len(findings) > _MOST:
        findings.sort(key=lambda finding: -finding.severity)
        findings[_MOST:] = [more_of(findings[_MOST].severity, several(len(findings) - _MOST, "more object"))]
    for finding in findings:
        yield finding
    if count:
        yield sound(count.total(), "object")


class _Compared:
    """The nearest workloads of the first rules that match nothing: each is compared with all that there are."""

    def __init__(self, inquiry: Inquiry, most: int) -> None:
        self.inquiry, self._left, self._unmended = inquiry, most, _MENDED

    async def mended(self, it: objects.Object, finding: Finding, others: frozenset[str]) -> Finding:
        """A finding on companions, with the command of the verdict on the rule: it ends the cause, or shows it.

        Not where that is one of the `others`: the commands of further findings on the rule, which end something else.
        """
        if finding.code != "BERTH3006":
            return finding
        command = describe(it)
        if self._unmended:
            self._unmended -= 1
            verdict = await self.inquiry.verdict(it)
            fix = "" if verdict.fix in others else verdict.fix
            command = " && ".join(fix.split("\n")) or verdict.more or command
        return replace(finding, command=command)

    async def near(self, it: objects.Object) -> Near | None:
        if objects.condition(it.json, "Matched").get("reason") != "NoWorkloadMatches" or not self._left:
            return None
        self._left -= 1
        return await self.inquiry.ask(nearest(it))


async def _of_kind(
    cluster: Cluster, resource: Resource, role: str, count: Counter[Resource], compared: _Compared
) -> AsyncIterator[Finding]:
    late: list[str] = []
    apart: list[str] = []
    said = ""
    async for obj in cluster.paged(resource):
        if objects.labels(obj).get(workloads.MIRROR):
            continue  # its status is that of the Pod that it shows
        count[resource] += 1
        it = objects.Object(resource, obj)
        if away := cut_off(it):
            said = said or plain(away)
            apart.append(it.subject)
            continue
        findings = (*reported(it), *conditions(it, cluster.now(), await compared.near(it)))
        others = frozenset(finding.command for finding in findings)
        for finding in findings:
            yield await compared.mended(it, finding, others)
        ignored = await compared.inquiry.ask(misplaced(it)) if objects.unseen(obj) else None
        if ignored is not None:
            causes = f"{ignored.text}: {'; '.join(ignored.because)}"
            yield error(ignored.codes[0], it, causes, ignored.so, ignored.fix)
        elif objects.unseen(obj) and objects.unchanged(obj, cluster.now()) > PATIENCE:
            late.append(it.subject)
    if late:
        yield await acting.late(cluster, role, "BERTH3002", late)
    if apart:
        look = cluster.doctor("--only", "agent")
        because, case = (
            (topic("link", role), *depends_on(role)),
            "uvs" if resource in workloads.UVS_RESOURCES else resource.kind,
        )
        yield error("BERTH3001", acting.together(apart), said, command=look, case=case, because=because)


async def _companions(cluster: Cluster) -> AsyncIterator[Finding]:
    # Without the nodes, what the scheduler says has to do.
    dpus, inquiry = await or_default(dpus_of(cluster), None), Inquiry(cluster, many=True)

    async def judge(pod: JSON) -> Finding | None:
        return await inquiry.ask(examined(objects.Object(PODS, pod), cluster.now(), dpus))

    async for finding in of_each(cluster.pods(label_selector=workloads.COMPANION), judge, most=_MOST, noun="companion"):
        yield finding


RULES_CHECK = Check("rules", (_rules,), of_users=(_rules,))
COMPANIONS_CHECK = Check("companions", (_companions,), of_users=(_companions,))
