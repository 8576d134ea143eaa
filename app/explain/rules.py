"""What a rule would do, and how that is written as text and for a JSON answer. Pure.

Shown are which workloads match, what keeps the others out, and the companion of each. Where none matches, the workload
that lacks least comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from app.explain.compared import ComparedWorkload
from app.explain.model import Manifest
from app.explain.rendering import Line
from app.placement.model import PlacementOptions
from app.text import closest, cut, quoted, several
from app.wire import JSON, decode_json
from app.workloads.companions.plan import Outcome, Planned, Planner
from app.workloads.model import (
    SYSTEM_NAMESPACE,
    TENANT_RULES,
    WORKLOAD_RULES,
    WORKLOADS,
    Expression,
    Rule,
    tenant_name,
    tenant_namespace,
)
from app.workloads.rules.key_reach import NEVER, fixed, impossible
from app.workloads.rules.keys import Facts, met
from app.workloads.rules.problems import parse_rule
from app.workloads.webhook import RULES

UNKNOWN_TENANT = "TENANT"
"""In place of the name of the tenant, which its own cluster does not know."""
_RUNNING = ("state.nodeName", "state.ready")
_LISTED = 200
"""Workloads of a rule that are kept, of those that match and of the others; all are counted."""
_SHOWN = 10
"""Workloads of a rule in a text, of those that match and of the others."""
_VALUES = 1000
"""Values of all workloads under one key that are kept."""
_FAILING = 3
"""Expressions of the nearest workload that are shown."""


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

    @property
    def meant(self) -> list[str]:
        """A sentence for each value that no workload has, with the one that was probably meant."""
        return [_meant(expression, meant) for expression, _, meant in self.failed if meant]

    @property
    def lacks(self) -> str:
        """The workload, as its tenant knows it, and what does not hold of it."""
        reference, workload = self.seen.reference, self.seen.workload
        title = f"{reference['kind']} {reference['namespace']}/{reference['name']}"
        if reference["kind"] == WORKLOADS.kind:
            document = decode_json(workload.document)["metadata"]
            tenant = tenant_name(workload.namespace)
            title = f"Pod {document['resourceNamespace']}/{document['resourceName']} of tenant {tenant}"
        failing = "; ".join(f"{shown(expression)}: {why}" for expression, why, _ in self.failed[:_FAILING])
        count = self.held + len(self.failed)
        return f"nearest is {title}: {self.held} of {count} expressions of workloadTerms[{self.term}] hold; {failing}"

    @property
    def causes(self) -> tuple[str, ...]:
        """Both, as sentences."""
        return (*self.meant, self.lacks)


@dataclass(slots=True)
class RuleExplained:
    """`refused` says why the rule would not be admitted; then it is compared with nothing.

    `matches` and `misses` have the first workloads, `matched` and `missed` count all. `nearest` is None where a
    workload matches, none was looked at, or none can match: of such a rule `impossible` has the path in the rule
    and the reason.
    """

    manifest: Manifest
    refused: str = ""
    matches: list[_Match] = field(default_factory=list)
    misses: list[_Miss] = field(default_factory=list)
    matched: int = 0
    missed: int = 0
    impossible: tuple[str, str] | None = None
    nearest: Nearest | None = None

    @property
    def verdict(self) -> str:
        if self.refused:
            return f"would be refused: {self.refused}"
        if self.impossible:
            return NEVER.format(*self.impossible)
        if not self.matched + self.missed:
            return "was compared with no workload: give Pods with -f, or a cluster that has some"
        return f"matches {self.matched} of {several(self.matched + self.missed, 'workload')}"


class Comparison:
    """A rule that workloads are shown to, one by one. Raises RuleError for one that would be refused."""

    def __init__(self, manifest: Manifest, placement: PlacementOptions) -> None:
        self.rule = _stored(manifest)
        self.result = RuleExplained(manifest, impossible=impossible(self.rule.terms))
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

    def done(self) -> RuleExplained:
        """The result, when all workloads were looked at."""
        self.result.nearest = self._nearest()
        return self.result

    def _nearest(self) -> Nearest | None:
        if self._least is None or self.result.matched or self.result.impossible:
            return None
        _, number, seen = self._least
        facts, term = Facts(seen.workload.document), self.rule.terms[number]
        failed = [expression for expression in term if not met(expression, facts)]
        causes = ((expression, _why(expression, facts, seen), self._near(expression)) for expression in failed)
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

    def _near(self, expression: Expression) -> str:
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


def _meant(expression: Expression, meant: str) -> str:
    wrong = next(value for value in sorted(expression.values) if closest(value, [meant]))
    if expression.key == "metadata.resourceNamespace":
        return f"there is no namespace {quoted(wrong)} among those reported; there is {quoted(meant)}"
    return f"no workload has {quoted(wrong)} as {cut(expression.key)}; there is {quoted(meant)}"


def text_of(rule: RuleExplained) -> Iterator[Line]:
    """As `berth explain` prints a rule that would be admitted."""
    yield Line(f"{rule.manifest.subject}: {rule.verdict}", "green" if rule.matched else "yellow")
    for cause in rule.nearest.causes if rule.nearest else ():
        yield Line(f"  {cause}", "yellow")
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
        "nearest": _nearest_object(rule.nearest) if rule.nearest else None,
    }


def _nearest_object(nearest: Nearest) -> JSON:
    failed = [
        {**member, "meant": meant}
        for member, (_, _, meant) in zip(
            _failed((expression, why) for expression, why, _ in nearest.failed), nearest.failed, strict=True
        )
    ]
    return {**nearest.seen.reference, "term": nearest.term, "held": nearest.held, "failed": failed}


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
