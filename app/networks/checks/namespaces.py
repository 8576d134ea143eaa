"""Part of check `pods`: namespaces about whose Pods Berth is not asked although they need it, one finding for each."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity, more_of, or_default
from app.doctor.objects import Object
from app.kube.resources import NAMESPACES
from app.networks.why.namespaces import judge_left_out
from app.text import several
from app.why.examined import finding_of
from app.why.inquiry import Inquiry
from app.why.model import Unread

_MOST = 200


async def left_out(cluster: Cluster) -> AsyncIterator[Finding]:
    """Namespaces about whose Pods Berth is not asked, and that have Pods which need it; none that may not be read."""
    scope = cluster.scope
    known = await or_default(cluster.get(NAMESPACES, scope), None) if scope else None
    inquiry, findings = Inquiry(cluster), list[Finding]()
    for namespace in filter(None, [known] if scope else await cluster.namespaces()):
        it = Object(NAMESPACES, namespace)
        try:
            verdict = await inquiry.ask(judge_left_out(it))
        except Unread:
            continue
        if verdict is not None and (finding := finding_of(it, verdict)) is not None:
            findings.append(finding)
    for finding in findings[:_MOST]:
        yield finding
    if len(findings) > _MOST:
        yield more_of(Severity.error, several(len(findings) - _MOST, "more Namespace"))
