"""Writes what a rule would do, as text and for a JSON answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.explain.rendering import Line
from app.explain.rules import Match, RuleExplained
from app.text import cut
from app.wire import JSON
from app.workloads.companions.plan import Outcome, Planned
from app.workloads.model import SYSTEM_NAMESPACE, Expression

_SHOWN = 10
"""Workloads of a rule in a text, of those that match and of the others."""


def text_of(one: RuleExplained) -> Iterator[Line]:
    """As `berth explain` prints a rule that would be admitted."""
    yield Line(f"{one.manifest.subject}: {one.verdict}", "green" if one.matched else "yellow")
    for match in one.matches[:_SHOWN]:
        yield Line(f"  {match.seen.title}: matches by workloadTerms[{match.term}]")
        yield from _companion(match)
    yield from _more(one.matched, "match")
    for miss in one.misses[:_SHOWN]:
        yield Line(f"  {miss.seen.title}: does not match")
        for number, term in enumerate(miss.terms):
            for expression, why in term:
                yield Line(f"    workloadTerms[{number}]: {_shown(expression)}: {why}", "yellow")
    yield from _more(one.missed, "do not match")


def object_of(one: RuleExplained) -> JSON:
    """As its JSON answer has it."""
    return {
        **one.manifest.reference,
        "allowed": not one.refused,
        "message": one.verdict,
        "matched": one.matched,
        "missed": one.missed,
        "matches": [
            {**match.seen.reference, "term": match.term, "companion": _outcome(match.outcome)} for match in one.matches
        ],
        "misses": [{**miss.seen.reference, "terms": list(map(_failed, miss.terms))} for miss in one.misses],
    }


def _companion(match: Match) -> Iterator[Line]:
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
        {"key": one.key, "operator": one.operator, "values": sorted(one.values), "because": why} for one, why in term
    ]


def _shown(expression: Expression) -> str:
    values = f" {', '.join(sorted(expression.values))}" if expression.values else ""
    return f"{cut(expression.key)} {expression.operator}{cut(values)}"
