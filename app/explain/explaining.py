"""Asks the webhook's own planner about Pods from manifests, with attachments from the same files or from a cluster.

Beside Pods: webhook and controllers judge the other objects, rules meet workloads, UVS objects are followed. Runs the
very chains that answer `/mutate` and `/validate`, so that texts, exemptions and order are the same; it decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace as with_roads
from functools import partial

import jsonpatch
from msgspec.structs import replace

from app.admission.decision import Decision
from app.admission.parts import Cached
from app.claims.settings import TemplateSettings
from app.errors import Transient
from app.explain import wrapped
from app.explain.answer import Answer
from app.explain.compared import given_workloads, live_workloads
from app.explain.fields import field_findings, refusal_findings
from app.explain.judging import attachment_findings, configurations, readers_of, service_findings
from app.explain.keys import key_findings
from app.explain.manifests import REVIEWED, Manifests
from app.explain.model import Finding, Manifest, PodManifest
from app.explain.rehearsal import Rehearsal, live, review, unread
from app.explain.rendering import UNREAD, Explained
from app.explain.roads import offer_of, roads_of
from app.explain.rules import Comparison, RuleExplained
from app.explain.wrapped import requested
from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS, NAMESPACES, NETWORK_ATTACHMENTS, PODS
from app.kube.store import Key
from app.networks.interfaces import chosen_by
from app.placement.model import PlacementOptions
from app.placement.settings import PlacementSettings
from app.settings.source import settings_as
from app.wire import JSON, decode_json, encode_json
from app.workloads.model import IMPOSSIBLE, UVS_RESOURCES, WORKLOAD_RULES, WORKLOADS
from app.workloads.rules.problems import RuleError
from app.workloads.webhook import RULES

_RULES = frozenset(kind for _, kind in RULES)
_REQUESTS = frozenset(resource.kind for resource in UVS_RESOURCES)


LeftOut = Callable[[Explained], Awaitable[Decision | None]]
"""What becomes of a Pod in place of what Berth would decide; None where that counts, for Berth is asked."""


async def explain(manifests: Manifests, rehearsal: Rehearsal, left_out: LeftOut | None = None) -> Answer:
    """What becomes of the manifests; fills the caches of the rehearsal.

    Without `left_out` Berth is taken to be asked about every Pod. Raises Transient where a cluster is given and cannot
    be asked.
    """
    caches, judging = rehearsal.caches, rehearsal.of_all_wings()
    unreadable: dict[str, None] = {}
    # What configures Berth in the cluster says nothing of an object that makes no Pod.
    for filled, alone in ((caches, False), (judging.caches, True)):
        await filled.fill(
            partial(_given, manifests=manifests, rehearsal=rehearsal, alone=alone),
            unreadable=lambda obj, _: unreadable.setdefault(_unreadable(obj)),
        )
    answer = Answer(
        objects=len(manifests.given), unused=manifests.unused, findings=manifests.findings, notes=manifests.notes
    )
    answer.notes += _left_out(manifests, caches.all, rehearsal)
    answer.notes += [problem for part in rehearsal.parts for problem in part.problems()]
    answer.findings += [finding for manifest in manifests.given for finding in field_findings(manifest)]
    answer.findings += [finding for manifest in manifests.given for finding in refusal_findings(manifest)]
    answer.findings += [Finding("error", "UnreadableObject", text) for text in unreadable]
    answer.findings += key_findings(manifests)
    await _check_all(manifests, judging, answer)
    answer.wrappers = [wrapped.explained(manifest) for manifest in manifests.wrappers]
    answer.pods = [await _as_asked(manifest, rehearsal, left_out) for manifest in manifests.pods]
    answer.findings += [finding async for finding in service_findings(manifests, answer.pods, rehearsal)]
    answer.findings += [finding async for finding in attachment_findings(manifests, answer.pods, rehearsal)]
    if manifests.pods:
        await _add_roads(answer, manifests, rehearsal)
    return answer


async def _add_roads(answer: Answer, manifests: Manifests, rehearsal: Rehearsal) -> None:
    """How devices would be served, where an offer is known, and what nothing offers."""
    offer, whole = await offer_of(manifests, rehearsal.caches.client, answer.notes)
    if offer is None:
        return
    config_map = rehearsal.namespace, settings_as(rehearsal.settings, TemplateSettings).claim_templates
    for index, result in enumerate(answer.pods):
        owner = result.manifest.owner
        roads = (
            []
            if result.denied or result.unread
            else [*roads_of(result.pod, owner.namespace, offer, manifests, config_map)]
        )
        texts = (
            f"{name}: {road.text if whole or not road.missing else 'what offers it could not be read'}"
            for name, road in roads
        )
        answer.pods[index] = with_roads(result, roads=tuple(texts))
        for name, road in roads if whole else ():
            if road.missing:
                text = f"{name}: {road.text}: the Pod would stay Pending"
                answer.findings.append(Finding("warning", "Unoffered", text, owner, result.manifest.path))


async def _as_asked(manifest: PodManifest, rehearsal: Rehearsal, left_out: LeftOut | None) -> Explained:
    """The same where Berth is asked; else the Pod as it is, and why it stays so."""
    try:
        result = await _explained(manifest, rehearsal)
    except Transient as fault:
        if not (text := unread(fault)):
            raise
        result = Explained(manifest, Decision(allowed=True, reason=UNREAD, message=text), (), manifest.pod)
    decision = None if left_out is None else await left_out(result)
    return result if decision is None else Explained(manifest, decision, (), manifest.pod)


async def _explained(manifest: PodManifest, rehearsal: Rehearsal) -> Explained:
    """As an API server creates a Pod: what is injected first, then the checks of what came out."""
    decision, plan = await review(rehearsal.chains["mutate"], manifest.pod, namespace=manifest.owner.namespace)
    pod, reasons = manifest.pod, tuple(plan.patch.reasons)
    if not decision.allowed:
        elsewhere = _elsewhere(pod, rehearsal) if decision.reason == "AttachmentNotFound" else []
        warnings = [*decision.warnings, *elsewhere]
        return Explained(manifest, replace(decision, warnings=warnings, encoded=b""), reasons, pod)
    if decision.operations:
        pod = jsonpatch.apply_patch(pod, decode_json(encode_json(decision.operations)), in_place=False)
    checked, _ = await review(rehearsal.chains["validate"], pod, namespace=manifest.owner.namespace)
    warnings = list(dict.fromkeys([*decision.warnings, *checked.warnings]))
    return Explained(
        manifest, replace(decision if checked.allowed else checked, warnings=warnings, encoded=b""), reasons, pod
    )


def _elsewhere(pod: JSON, rehearsal: Rehearsal) -> Iterator[str]:
    """Attachments of other namespaces that have the name of one that is not there."""
    metadata = pod["metadata"]
    keys: set[Key] = set()
    for cached in rehearsal.caches.all:
        keys.update(cached.store.keys() if cached.resource == NETWORK_ATTACHMENTS else ())
    for selected in chosen_by(metadata.get("annotations") or {}, metadata["namespace"]).selections:
        homes = sorted(namespace for namespace, name in keys if name == selected.name)
        if homes and selected.namespace not in homes:
            yield f"namespace {homes[0]} has an attachment of this name: write {homes[0]}/{selected.name}"


async def _given(cached: Cached, *, manifests: Manifests, rehearsal: Rehearsal, alone: bool) -> AsyncIterator[JSON]:
    """What a cache holds: objects of the manifests; what these lack of one comes from the cluster if not `alone`."""
    resource, only = cached.resource, cached.only
    given = False
    if resource == NAMESPACES:
        # One that is not among the manifests is known by its name alone.
        homes = (
            *(pod.owner.namespace for pod in manifests.pods),
            *(manifest.namespace for manifest in manifests.others),
        )
        for namespace in filter(None, dict.fromkeys(homes)):
            yield {"metadata": {"name": namespace}}
    for obj in manifests.of(resource.kind):
        metadata = obj["metadata"]
        home = metadata.get("namespace") or (rehearsal.namespace if resource.namespaced else "")
        if only is not None and metadata.get("name") != only[1]:
            continue
        given = given or (home, metadata.get("name")) == only
        yield {**obj, "metadata": {**metadata, "namespace": home}} if resource.namespaced else obj
    if only is not None and not given and not alone:
        configured = await live(rehearsal, resource, only, manifests.notes)
        if configured is not None:
            yield configured


def _unreadable(obj: JSON) -> str:
    namespace, name = (str(obj["metadata"].get(part) or "") for part in ("namespace", "name"))
    return f"{obj.get('kind')} {namespace}/{name}: has not the form of its kind"


def _left_out(manifests: Manifests, caches: Sequence[Cached], rehearsal: Rehearsal) -> Iterator[str]:
    """Notes on objects that the webhook would read in another namespace; those of other names are counted."""
    for kind in dict.fromkeys(cached.resource.kind for cached in caches):
        keys = [cached.only for cached in caches if cached.resource.kind == kind]
        names = dict.fromkeys(configurations(rehearsal), rehearsal.namespace) if kind == CONFIG_MAPS.kind else {}
        names |= {only[1]: only[0] for only in keys if only is not None}
        for obj in manifests.of(kind) if None not in keys else ():
            name, namespace = str(obj["metadata"].get("name")), obj["metadata"].get("namespace")
            if name not in names:
                manifests.unused[kind] += 1
            elif namespace and namespace != names[name]:
                yield f"{kind} {namespace}/{name}: the webhook reads it in {names[name]}; left out"


async def _check_all(manifests: Manifests, rehearsal: Rehearsal, answer: Answer) -> None:
    """Adds to the answer: what would be refused and what is warned of, the rules, what UVS objects ask for."""
    placement = settings_as(rehearsal.settings, PlacementSettings).placement
    comparisons: list[Comparison] = []
    fields: defaultdict[str, list[str]] = defaultdict(list)
    for finding in answer.findings:
        if finding.manifest is not None:
            fields[finding.manifest.place].append(f"{finding.field}: ")
    for manifest in manifests.others:
        for reader in readers_of(manifest, rehearsal):
            answer.judged += 1
            answer.findings += reader.findings(manifest)
        if (decision := await _checked(manifest, rehearsal, answer)) is None:
            continue
        refused = "" if decision.allowed else decision.message
        if manifest.kind in _RULES:
            made = refused or _comparison(manifest, placement)
            if isinstance(made, Comparison):
                comparisons.append(made)
            rule = RuleExplained(manifest, made) if isinstance(made, str) else made.result
            answer.rules.append(rule)
            answer.findings += _impossible(fields[manifest.place], rule)
            refused = rule.refused
        elif manifest.kind in _REQUESTS:
            answer.requests.append(requested(manifest, refused, placement))
            refused = answer.requests[-1].refused
        answer.findings += _findings(fields[manifest.place], manifest, decision)
        answer.refused += bool(refused)
        if refused and decision.allowed:
            answer.findings.append(Finding("error", "Invalid", f"would be refused: {refused}", manifest))
    await _compare(comparisons, manifests, rehearsal, answer)


async def _checked(manifest: Manifest, rehearsal: Rehearsal, answer: Answer) -> Decision | None:
    """What the webhook says of an object; None of a kind that it is not asked about.

    None, with a note, also where its user may not read what that rests on.
    """
    if manifest.kind not in REVIEWED:
        return None
    try:
        decision, _ = await review(rehearsal.chains["validate"], manifest.obj, namespace=manifest.namespace)
    except Transient as fault:
        if not (text := unread(fault)):
            raise
        answer.unread += 1
        answer.notes.append(f"{manifest.subject}: not checked: {text}")
        return None
    return decision


def _findings(fields: list[str], manifest: Manifest, decision: Decision) -> Iterator[Finding]:
    """What the webhook says of an object, but for these `fields`, of which more has been said."""
    if not decision.allowed:
        yield Finding("error", decision.reason, f"would be refused: {decision.message}", manifest)
    before = f"{manifest.within}." if manifest.within else ""
    for text in decision.warnings:
        if not f"{before}{text}".startswith(tuple(fields)):
            yield Finding("warning", "Warned", text, manifest)


def _impossible(fields: list[str], rule: RuleExplained) -> Iterator[Finding]:
    """That a rule can never match, of which the webhook warns; adds its field to `fields`."""
    if rule.impossible is not None:
        path, why = rule.impossible
        field = f"{rule.manifest.within}.spec.{path}" if rule.manifest.within else f"spec.{path}"
        fields.append(f"{field}: ")
        yield Finding("error", IMPOSSIBLE, f"no workload can match: {why}", rule.manifest, field)


def _comparison(manifest: Manifest, placement: PlacementOptions) -> Comparison | str:
    """Or why the rule cannot be used; admission looks at less than the controller."""
    try:
        return Comparison(manifest, placement)
    except RuleError as error:
        return str(error)


async def _compare(comparisons: list[Comparison], manifests: Manifests, rehearsal: Rehearsal, answer: Answer) -> None:
    """WorkloadRules see the Pods of their own cluster, the others the Workloads of the infra cluster."""
    for seen in given_workloads(manifests):
        for comparison in comparisons:
            comparison.look_at(seen)
    if (client := rehearsal.caches.client) is not None:
        await _compare_live(client, comparisons, manifests, answer.notes)
    for comparison in comparisons:
        comparison.done()


async def _compare_live(
    client: KubeClient, comparisons: list[Comparison], manifests: Manifests, notes: list[str]
) -> None:
    of_tenant = [comparison for comparison in comparisons if comparison.result.manifest.kind == WORKLOAD_RULES.kind]
    others = [comparison for comparison in comparisons if comparison not in of_tenant]
    for resource, group in ((PODS, of_tenant), (WORKLOADS, others)):
        if group:
            async for seen in live_workloads(client, resource, manifests, notes):
                for comparison in group:
                    comparison.look_at(seen)
