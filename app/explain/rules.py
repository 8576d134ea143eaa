"""What a rule would do, and how that is written as text and for a JSON answer. Pure.

Shown are which workloads match, what keeps the others out, and the companion of each. The workloads that rules are
compared with are Pods and Workloads of manifests, and those of a cluster. What a manifest does not say of a Pod has a
stand-in: a UID of zeros, and `xxxxx` at the end of a name that is made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from app.errors import ApiError
from app.explain.manifests import Manifests
from app.explain.model import Manifest, PodManifest
from app.explain.rendering import Line
from app.kube.client import KubeClient
from app.kube.conditions import is_true
from app.kube.derived import Derived
from app.kube.resources import PODS, Resource
from app.kube.retry import every_item
from app.placement.model import PlacementOptions
from app.text import closest, cut, quoted, several
from app.wire import JSON
from app.workloads.companions.plan import Outcome, Planned, Planner
from app.workloads.controller.stored import project_workload
from app.workloads.model import (
    SYSTEM_NAMESPACE,
    TENANT_RULES,
    WORKLOAD_RULES,
    WORKLOADS,
    Expression,
    Rule,
    Workload,
    counts_as_gone,
    tenant_name,
    tenant_namespace,
    workload_name,
    workload_spec,
)
from app.workloads.rules.key_reach import fixed
from app.workloads.rules.keys import Facts, met
from app.workloads.rules.problems import parse_rule
from app.workloads.webhook import RULES

MOST = 20_000
"""Workloads of a cluster that are looked at."""
_NO_UID = "00000000-0000-0000-0000-000000000000"
_NO_TENANT = "tenant-"
UNKNOWN_TENANT = "TENANT"
"""In place of the name of the tenant, which its own cluster does not know."""
_RUNNING = ("state.nodeName", "state.ready")
_LISTED = 200
"""Workloads of a rule that are kept, of those that match and of the others; all are counted."""
_SHOWN = 10
"""Workloads of a rule in a text, of those that match and of the others."""
_VALUES = 1000
"""Values of all workloads under one key that are kept."""


@dataclass(frozen=True, slots=True)
class _Match:
    """A workload that matches by the term of this number, counted from 0, and its companion."""

    seen: ComparedWorkload
    term: int
    outcome: Outcome
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Miss:
    """A workload that does not match; for each term the expressions that do not hold, and why."""

    seen: ComparedWorkload
    terms: tuple[tuple[tuple[Expression, str], ...], ...]


@dataclass(frozen=True, slots=True)
class Nearest:
    """The workload without a match that lacks least: by the term of this number `held` of all expressions hold.

    `failed` are the others, each with the reason and with the value that workloads have and that was probably meant.
    """

    seen: ComparedWorkload
    term: int
    held: int
    failed: tuple[tuple[Expression, str, str], ...]


@dataclass(slots=True)
class RuleExplained:
    """`refused` says why the rule would not be admitted; then it is compared with nothing.

    `matches` and `misses` have the first workloads, `matched` and `missed` count all.
    """

    manifest: Manifest
    refused: str = ""
    matches: list[_Match] = field(default_factory=list)
    misses: list[_Miss] = field(default_factory=list)
    matched: int = 0
    missed: int = 0

    @property
    def verdict(self) -> str:
        if self.refused:
            return f"would be refused: {self.refused}"
        if not self.matched + self.missed:
            return "was compared with no workload: give Pods with -f, or a cluster that has some"
        return f"matches {self.matched} of {several(self.matched + self.missed, 'workload')}"


class Comparison:
    """A rule that workloads are shown to, one by one. Raises RuleError for one that would be refused."""

    def __init__(self, manifest: Manifest, placement: PlacementOptions) -> None:
        self.result = RuleExplained(manifest)
        self.rule = _stored(manifest)
        self._planner = Planner(placement)
        tenants = sorted(self.rule.tenants or ())
        self._tenant = tenant_namespace(tenants[0] if tenants else UNKNOWN_TENANT)
        self._least: tuple[tuple[int, int, int], int, ComparedWorkload] | None = None
        self._values: dict[str, set[str]] = {}

    def look_at(self, seen: ComparedWorkload) -> None:
        workload = seen.by(self.rule, self._tenant)
        if workload is None:
            return
        facts, result = Facts(workload.document), self.result
        failed = [tuple(expression for expression in term if not met(expression, facts)) for term in self.rule.terms]
        if all(failed):
            result.missed += 1
            self._rank(seen, facts, failed)
            if len(result.misses) < _LISTED:
                terms = (tuple((expression, _why(expression, facts, seen)) for expression in term) for term in failed)
                result.misses.append(_Miss(seen, tuple(terms)))
            return
        result.matched += 1
        if len(result.matches) < _LISTED:
            ((_, outcome, _),) = self._planner.plans(workload, [self.rule])
            absent = tuple(
                injection.annotation for injection in self.rule.injections if facts.text(injection.key) is None
            )
            result.matches.append(_Match(seen, failed.index(()), outcome, absent))

    @property
    def nearest(self) -> Nearest | None:
        """None where no workload was looked at, or one matches."""
        if self._least is None or self.result.matched:
            return None
        _, number, seen = self._least
        facts, term = Facts(seen.workload.document), self.rule.terms[number]
        failed = [expression for expression in term if not met(expression, facts)]
        causes = ((expression, _why(expression, facts, seen), self._meant(expression)) for expression in failed)
        return Nearest(seen, number, len(term) - len(failed), tuple(causes))

    def _rank(self, seen: ComparedWorkload, facts: Facts, failed: list[tuple[Expression, ...]]) -> None:
        """By the fewest expressions that do not hold, the most that hold, and the most whose value is near."""
        for number, expressions in enumerate(failed):
            lacks, near = (len(expressions), len(expressions) - len(self.rule.terms[number])), 0
            for expression in (expression for expression in expressions if expression.operator == "In"):
                if isinstance(value := facts.find(expression.key), str):
                    values = self._values.setdefault(expression.key, set())
                    if len(values) < _VALUES:
                        values.add(value)
                    if self._least is None or lacks <= self._least[0][:2]:
                        near -= bool(closest(value, expression.values))
            if self._least is None or (*lacks, near) < self._least[0]:
                self._least = (*lacks, near), number, seen

    def _meant(self, expression: Expression) -> str:
        """The value that workloads have in place of one that none has; "" where none is near."""
        values = self._values.get(expression.key, set()) if expression.operator == "In" else set()
        near = (closest(value, sorted(values)) for value in sorted(expression.values - values))
        return next(filter(None, near), "")


def _stored(manifest: Manifest) -> Rule:
    """The rule as the infra cluster would have it."""
    api_version, metadata = manifest.obj.get("apiVersion"), manifest.obj["metadata"]
    kind = RULES[str(api_version).rpartition("/")[0], manifest.kind]
    namespace = {
        WORKLOAD_RULES.kind: tenant_namespace(UNKNOWN_TENANT),
        TENANT_RULES.kind: manifest.namespace,
    }.get(manifest.kind, SYSTEM_NAMESPACE)
    name = metadata.get("name") or f"{metadata.get('generateName')}xxxxx"
    return parse_rule({**manifest.obj, "metadata": {"name": name, "namespace": namespace}}, kind=kind)


def _why(expression: Expression, facts: Facts, seen: ComparedWorkload) -> str:
    """What the workload has under the key, and where no workload can have what is wanted, why."""
    value = facts.find(expression.key)
    reason = "has no value" if value is None else "is a map or a list" if value is False else f"is {quoted(str(value))}"
    if not seen.runs and expression.key in _RUNNING:
        reason = f"{reason} before it runs"
    never = fixed(expression)
    return reason if never is None or never.holds else f"{reason}; {never.why}"


def text_of(rule: RuleExplained) -> Iterator[Line]:
    """As `berth explain` prints a rule that would be admitted."""
    yield Line(f"{rule.manifest.subject}: {rule.verdict}", "green" if rule.matched else "yellow")
    for match in rule.matches[:_SHOWN]:
        yield Line(f"  {match.seen.title}: matches by workloadTerms[{match.term}]")
        yield from _companion(match)
    yield from _more(rule.matched, "match")
    for miss in rule.misses[:_SHOWN]:
        yield Line(f"  {miss.seen.title}: does not match")
        for number, term in enumerate(miss.terms):
            for expression, why in term:
                yield Line(f"    workloadTerms[{number}]: {shown(expression)}: {why}", "yellow")
    yield from _more(rule.missed, "do not match")


def object_of(rule: RuleExplained) -> JSON:
    """As its JSON answer has it."""
    return {
        **rule.manifest.reference,
        "allowed": not rule.refused,
        "message": rule.verdict,
        "matched": rule.matched,
        "missed": rule.missed,
        "matches": [
            {**match.seen.reference, "term": match.term, "companion": _outcome(match.outcome)} for match in rule.matches
        ],
        "misses": [{**miss.seen.reference, "terms": list(map(_failed, miss.terms))} for miss in rule.misses],
    }


def _companion(match: _Match) -> Iterator[Line]:
    outcome = match.outcome
    if not isinstance(outcome, Planned):
        yield Line(f"    no companion ({outcome.reason}): {outcome.message}", "yellow")
        return
    anywhere = "any node that its template allows" if outcome.namespace == SYSTEM_NAMESPACE else "any DPU of the tenant"
    where = f"a DPU of host {outcome.host}" if outcome.host else anywhere
    yield Line(f"    companion {outcome.namespace}/{outcome.name} on {where}", "cyan")
    for name, text in outcome.injected.items():
        yield Line(f"      annotation {name}: {cut(text)}")
    for name in match.absent:
        yield Line(f"      annotation {name}: left out, its key has no value")


def _more(count: int, what: str) -> Iterator[Line]:
    if count > _SHOWN:
        yield Line(f"  … and {count - _SHOWN} more that {what}")


def _outcome(outcome: Outcome) -> JSON:
    if isinstance(outcome, Planned):
        return {"namespace": outcome.namespace, "name": outcome.name, "host": outcome.host, "pod": outcome.manifest}
    return {"reason": outcome.reason, "message": outcome.message}


def _failed(term: Iterable[tuple[Expression, str]]) -> list[JSON]:
    return [
        {"key": expression.key, "operator": expression.operator, "values": sorted(expression.values), "because": why}
        for expression, why in term
    ]


def shown(expression: Expression) -> str:
    values = f" {', '.join(sorted(expression.values))}" if expression.values else ""
    return f"{cut(expression.key)} {expression.operator}{cut(values)}"


@dataclass(frozen=True, slots=True)
class ComparedWorkload:
    """A workload; `title` and `reference` say what it is for people and in JSON.

    `runs`: its node and whether it is ready are known. `tenant` is the namespace of its tenant, "" for any.
    """

    title: str
    reference: JSON
    workload: Workload
    runs: bool
    tenant: str = ""

    def by(self, rule: Rule, otherwise: str) -> Workload | None:
        """The workload as the rule sees it, None for one of another tenant; `otherwise` is the tenant of any."""
        namespace = self.tenant or otherwise
        if rule.tenants is not None and tenant_name(namespace) not in rule.tenants:
            return None
        return replace(self.workload, namespace=namespace)


def given_workloads(manifests: Manifests) -> Iterator[ComparedWorkload]:
    """Those of the manifests that can be used."""
    for pod in manifests.pods:
        if (seen := _of_pod(pod)) is not None:
            yield seen
    for given in manifests.others:
        if given.kind == WORKLOADS.kind:
            with suppress(ValueError):  # a finding says it
                workload = project_workload(given.obj)
                yield ComparedWorkload(given.subject, given.reference, workload, runs=True, tenant=workload.namespace)


def _of_pod(pod: PodManifest) -> ComparedWorkload | None:
    """None for a Pod that is none: it is being deleted, has finished, or no API server would take it."""
    metadata = pod.pod["metadata"]
    named = {**metadata, "uid": metadata.get("uid") or _NO_UID}
    named["name"] = metadata.get("name") or f"{metadata.get('generateName') or ''}xxxxx"
    try:
        if counts_as_gone(pod.pod):
            return None
        workload = _projected({**pod.pod, "metadata": named})
    except (ValueError, TypeError, AttributeError):
        return None
    return ComparedWorkload(pod.subject, pod.reference, workload, runs=bool(metadata.get("uid") and workload.node_name))


async def live_workloads(
    client: KubeClient, resource: Resource, manifests: Manifests, notes: list[str], *, namespace: str | None = None
) -> AsyncIterator[ComparedWorkload]:
    """Pods or Workloads of the cluster or a namespace, but for Pods that are among the manifests. Raises ApiError."""
    given = {(pod.owner.namespace, pod.owner.name) for pod in manifests.pods if pod.owner.kind == PODS.kind}
    count = 0
    try:
        async for obj in every_item(lambda page: client.list_page(resource, namespace=namespace, continue_token=page)):
            key = obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
            if resource == PODS and (key in given or counts_as_gone(obj)):
                continue
            if (count := count + 1) > MOST:
                notes.append(f"the cluster has more than {MOST} {resource.plural}: the others were not compared")
                return
            try:
                workload = (OF_PODS if resource == PODS else STORED)(obj)
            except ValueError:  # the doctor names it
                continue
            reference = {"source": "cluster", "kind": resource.kind, "namespace": key[0], "name": key[1]}
            where, tenant = f"{resource.kind} {key[0]}/{key[1]} (cluster)", "" if resource == PODS else key[0]
            yield ComparedWorkload(where, reference, workload, runs=True, tenant=tenant)
    except ApiError as error:
        if not error.not_found:
            raise
        notes.append(f"the cluster has no {resource.plural}.{resource.group}: rules were compared with the files alone")


def _projected(pod: JSON) -> Workload:
    """The Workload that a Pod becomes, in the namespace of a tenant without a name. Raises ValueError."""
    spec = workload_spec(pod, ready=is_true(pod.get("status") or {}, "Ready"))
    name = workload_name(spec["metadata"]["id"])
    return project_workload({"metadata": {"namespace": _NO_TENANT, "name": name}, "spec": spec})


OF_PODS, STORED = Derived(_projected), Derived(project_workload)
