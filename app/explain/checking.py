"""What there is beside Pods: webhook and controllers judge it, rules meet workloads, UVS objects are followed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from app.admission.review import Decision
from app.explain.answer import Answer
from app.explain.judging import readers_of
from app.explain.manifests import REVIEWED, Manifests
from app.explain.model import Finding, Manifest
from app.explain.rehearsal import Rehearsal, review
from app.explain.requested import requested
from app.explain.rules import Comparison, RuleExplained
from app.explain.workloads import given_workloads, live_workloads
from app.kube.resources import PODS
from app.placement.model import PlacementOptions
from app.placement.settings import PlacementSettings
from app.settings.source import settings_as
from app.workloads.model import UVS_RESOURCES, WORKLOAD_RULES, WORKLOADS
from app.workloads.rules.problems import RuleError
from app.workloads.validation import RULES

_RULES = frozenset(kind for _, kind in RULES)
_REQUESTS = frozenset(one.kind for one in UVS_RESOURCES)


async def check_all(manifests: Manifests, rehearsal: Rehearsal, answer: Answer) -> None:
    """Adds to the answer: what would be refused and what is warned of, the rules, what UVS objects ask for."""
    placement = settings_as(rehearsal.settings, PlacementSettings).placement
    comparisons: list[Comparison] = []
    known: defaultdict[str, list[str]] = defaultdict(list)
    for finding in answer.findings:
        if finding.manifest is not None:
            known[finding.manifest.place].append(f"{finding.field}: ")
    for one in manifests.others:
        for reader in readers_of(one, rehearsal):
            answer.judged += 1
            answer.findings += reader.findings(one)
        if one.kind not in REVIEWED:
            continue
        decision, _ = await review(rehearsal.chains["validate"], one.obj, namespace=one.namespace)
        refused = "" if decision.allowed else decision.message
        answer.findings += _findings(known[one.place], one, decision)
        if one.kind in _RULES:
            made = refused or _comparison(one, placement)
            if isinstance(made, Comparison):
                comparisons.append(made)
            answer.rules.append(RuleExplained(one, made) if isinstance(made, str) else made.result)
            refused = answer.rules[-1].refused
        elif one.kind in _REQUESTS:
            answer.requests.append(requested(one, refused, placement))
            refused = answer.requests[-1].refused
        answer.refused += bool(refused)
        if refused and decision.allowed:
            answer.findings.append(Finding("error", "Invalid", f"would be refused: {refused}", one))
    await _compare(comparisons, manifests, rehearsal, answer)


def _findings(known: list[str], manifest: Manifest, decision: Decision) -> Iterator[Finding]:
    """What the webhook says of an object, but for `known` fields, of which more has been said."""
    if not decision.allowed:
        yield Finding("error", decision.reason, f"would be refused: {decision.message}", manifest)
    before = f"{manifest.within}." if manifest.within else ""
    for text in decision.warnings:
        if not f"{before}{text}".startswith(tuple(known)):
            yield Finding("warning", "Warned", text, manifest)


def _comparison(one: Manifest, placement: PlacementOptions) -> Comparison | str:
    """Or why the rule cannot be used; admission looks at less than the controller."""
    try:
        return Comparison(one, placement)
    except RuleError as error:
        return str(error)


async def _compare(comparisons: list[Comparison], manifests: Manifests, rehearsal: Rehearsal, answer: Answer) -> None:
    """WorkloadRules see the Pods of their own cluster, the others the Workloads of the infra cluster."""
    if not comparisons:
        return
    for seen in given_workloads(manifests):
        for one in comparisons:
            one.look_at(seen)
    if (client := rehearsal.caches.client) is None:
        return
    of_tenant = [one for one in comparisons if one.result.manifest.kind == WORKLOAD_RULES.kind]
    others = [one for one in comparisons if one not in of_tenant]
    for resource, group in ((PODS, of_tenant), (WORKLOADS, others)):
        if group:
            async for seen in live_workloads(client, resource, manifests, answer.notes):
                for one in group:
                    one.look_at(seen)
