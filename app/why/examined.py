"""Findings of the doctor out of verdicts: what is stuck or broken is a finding of the first code of its verdict."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

from app.doctor.catalog import FINDINGS, command_line, filled
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Part, Severity, of_each
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
    values = {"it": it, "text": verdict.text, "causes": "; ".join(verdict.because)}
    said = f"{verdict.text}: {values['causes']}" if verdict.because else verdict.text
    known = FINDINGS[code]
    message, consequence = _filled(known.message, values) or said, verdict.so or _filled(known.consequence, values)
    command = verdict.fix or _filled(known.command, values, command_line) or verdict.more
    return Finding("", severity, it.subject, message, consequence or said, command, code)


def _filled(template: str, values: Mapping[str, object], fill: Callable[..., str] = filled) -> str:
    """A text of the catalog; "" of one that wants more than a verdict says, for it is about several objects."""
    try:
        return fill(template, values)
    except KeyError:
        return ""


def judged(
    resource: Resource, *, most: int = 100, noun: str = "", chosen: Callable[[JSON], bool] = lambda _: True
) -> Part:
    """A part of a check: each object of a kind that is chosen is judged as `berth why` does it."""

    async def part(cluster: Cluster) -> AsyncIterator[Finding]:
        bodies = (body async for body in cluster.paged(resource) if chosen(body))
        async for finding in examine_each(cluster, resource, most=most, noun=noun or resource.kind, bodies=bodies):
            yield finding

    return part


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
