"""Findings of the doctor out of verdicts: what is stuck or broken is a finding of the first code of its verdict."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from app.doctor.catalog import FINDINGS
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity, noted, of_each
from app.doctor.objects import Object
from app.kube.resources import Resource
from app.why.inquiry import Inquiry
from app.why.model import State, Verdict
from app.wire import JSON


def finding_of(it: Object, verdict: Verdict) -> Finding | None:
    """The finding that a verdict is; None of one that is fine or waits, and of one without a code."""
    if verdict.state <= State.waits or not verdict.codes:
        return None
    code = verdict.codes[0]
    severity = Severity[FINDINGS[code].severities.split()[0]]
    causes = "; ".join(verdict.because)
    finding = noted(severity, code, it, text=verdict.text, causes=causes, consequence=verdict.so, command=verdict.fix)
    return finding if finding.command else replace(finding, command=verdict.more)


async def examine_each(
    cluster: Cluster,
    resource: Resource,
    *,
    most: int,
    noun: str,
    bodies: AsyncIterator[JSON] | None = None,
    seen: Callable[[Verdict], None] = lambda _: None,
) -> AsyncIterator[Finding]:
    """The findings of all objects of a kind, or of these, as `of_each` gives them; `seen` is shown each verdict."""
    inquiry = Inquiry(cluster, many=True)

    async def judge(obj: JSON) -> Finding | None:
        it = Object(resource, obj)
        verdict = await inquiry.verdict(it)
        seen(verdict)
        return finding_of(it, verdict)

    async for finding in of_each(bodies or cluster.paged(resource), judge, most=most, noun=noun):
        yield finding
    for refusal in inquiry.refusals.values():
        yield refusal
