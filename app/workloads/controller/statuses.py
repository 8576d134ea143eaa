"""What the statuses of Workloads and rules say. Pure: from what is known to the JSON, and nothing is sent.

The words are those of the Workload API: result "success" or "error" with an empty message where nothing is wrong. The
conditions `Matched` and `Running` of a rule do not decide its result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from app.kube.conditions import Truth, since
from app.kube.resources import PODS
from app.text import MESSAGE, abridged, cut
from app.wire import JSON
from app.workloads.companions.marks import RUNS, Companion
from app.workloads.controller.findings import Finding
from app.workloads.model import ObjectKey, Problem, RuleKind, Term
from app.workloads.rules.key_reach import without_match

_REASONS = 8
"""Reasons that a message names, the most frequent first."""

_Condition = tuple[str, Truth, str, str]
"""Type, status, reason and message."""
_MESSAGES = 4096
"""Characters of the messages of all rules in the status of a Workload, of which there may be very many."""
_SHORTEST = 64
_ENTRIES = 512
"""Rules of one kind that the status of a Workload names; an object has room for some 1,500 of both."""
_NOT_CREATED = "NotCreated"
"""Reason of a companion that is to be made, where nothing is known to keep it from that."""


def workload_rules(
    matching: Iterable[tuple[RuleKind, ObjectKey]],
    companions: Iterable[Companion],
    findings: Mapping[ObjectKey, Finding],
) -> JSON:
    """`status.rules` of a Workload: an entry for each rule in `matching`, sorted by id; null for a kind without any.

    Beyond 512 of a kind, the last entry says how many more there are.
    """
    present = {companion.rule: companion for companion in companions if not companion.ending}
    matching = sorted(matching)
    limit = min(MESSAGE, max(_SHORTEST, _MESSAGES // max(1, len(matching))))
    rules: JSON = {"tenant": [], "admin": []}
    for kind, key in matching:
        status = _entry_status(present.get(key), findings.get(key), limit=limit)
        rules[kind].append({"id": f"{key[0]}/{key[1]}", "status": status})
    return {kind: _bounded(entries) or None for kind, entries in rules.items()}


def _bounded(entries: list[JSON]) -> list[JSON]:
    if len(entries) <= _ENTRIES:
        return entries
    shown, last = entries[: _ENTRIES - 1], entries[_ENTRIES - 1]
    more = f"{last['status']['message']} … and {len(entries) - _ENTRIES} more rules".strip()
    return [*shown, {**last, "status": {**last["status"], "message": more}}]


def _entry_status(companion: Companion | None, finding: Finding | None, *, limit: int) -> JSON:
    status: JSON = {}
    if companion is not None:
        place = {"name": companion.name, "namespace": companion.namespace}
        status["objRef"] = {"apiVersion": PODS.api_version, "kind": PODS.kind, **place}
    if finding is not None:
        result = "error" if isinstance(finding, Problem) else ""
        return {**status, "result": result, "message": cut(finding.message, limit), "reason": finding.reason}
    return {**status, "result": "success" if companion is not None else "", "message": ""}


def rule_status(
    kind: RuleKind,
    *,
    generation: int,
    terms: Iterable[Term] = (),
    matched: int,
    standings: Mapping[str, int],
    lacking: Mapping[str, int] | None = None,
    removing: int = 0,
    broken: Sequence[str],
    findings: Iterable[Finding],
) -> JSON:
    """The status of a rule without the times of its conditions. `broken` are the problems of the rule itself.

    `standings` are how many companions of workloads that match exist, by what keeps them from running, `lacking` those
    that are known not to exist, by the reason, and `removing` those of workloads that no longer match.
    What a tenant says of its workloads does not decide the result of a rule that is for other tenants too.
    """
    created = sum(standings.values())
    decisive, excluded = list[Problem](), list[Problem]()
    for finding in findings:
        if isinstance(finding, Problem):
            (excluded if finding.of_workload and kind == "admin" else decisive).append(finding)
    result, message = "success", ""
    ready, reason, explanation = "True", "AsDesired", f"{created} of {matched} companions exist"
    if removing:
        explanation += f"; removing {removing}"
    if broken:
        result, message = "error", abridged("; ".join(broken))
        ready, reason, explanation = "False", "InvalidRule", message
    elif decisive:
        count = len(decisive) + len(excluded)
        more = f" (1 of {count} workloads with problems)" if count > 1 else ""
        first = cut(f"{decisive[0].reason}: {decisive[0].message}", limit=MESSAGE - len(more))
        result, message = "error", first + more
        ready, reason, explanation = "False", decisive[0].reason, message
    else:
        if excluded:
            counted = f"{len(excluded)} of {matched} workloads cannot have a companion"
            message = abridged(f"{counted}: {excluded[0].reason}: {excluded[0].message}")
            explanation = f"{explanation}; {message}"
        if removing or created + len(excluded) < matched:
            ready, reason = "False", "Waiting"
    wanted = Counter(standings) + Counter(lacking or {})
    wanted[_NOT_CREATED] += max(0, matched - wanted.total())
    conditions = (
        ("Ready", ready, reason, explanation),
        matched_condition(matched, terms),
        running_condition(wanted),
    )
    return {
        "result": result,
        "message": message,
        "observedGeneration": generation,
        "matched": matched,
        "created": created,
        "running": standings.get(RUNS, 0),
        "conditions": [
            dict(zip(("type", "status", "reason", "message"), condition, strict=True))
            | {"observedGeneration": generation}
            for condition in conditions
        ],
    }


def timed(status: JSON, before: JSON, *, now: str) -> JSON | None:
    """The status with the times of its conditions' last transitions; None if `before` says the same already."""
    conditions = [
        {**condition, "lastTransitionTime": since(before, condition["type"], condition["status"], now=now)}
        for condition in status["conditions"]
    ]
    complete = {**status, "conditions": conditions}
    return None if complete == before else complete


def matched_condition(count: int, terms: Iterable[Term]) -> _Condition:
    """`terms` are those of the rule, and none of one that cannot be used."""
    terms = tuple(terms)
    if not terms:
        return "Matched", "Unknown", "InvalidRule", "the rule cannot be used"
    if count:
        return "Matched", "True", "WorkloadsMatch", f"{count} workload{'s match' if count > 1 else ' matches'}"
    dead = list(without_match(terms))
    if not dead:
        return "Matched", "False", "NoWorkloadMatches", "no workload matches"
    path, why = dead[0]
    if len(dead) == len(terms):
        return "Matched", "False", "ImpossibleKey", abridged(f"no workload can match: spec.{path}: {why}")
    message = f"no workload matches, and this term holds for none: spec.{path}: {why}"
    return "Matched", "False", "NoWorkloadMatches", abridged(message)


def running_condition(standings: Mapping[str, int]) -> _Condition:
    """`standings` are how many companions run (`RUNS`), and how many do not or are missing, by the reason."""
    counts = {standing: count for standing, count in standings.items() if count > 0}
    wanted = sum(counts.values())
    if not wanted:
        return "Running", "False", "NoCompanion", "there are no companions to run"
    runs = counts.pop(RUNS, 0)
    message = f"{runs} of {wanted} companions run"
    if not counts:
        return "Running", "True", "CompanionsRun", message
    obstacles = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    shown = [f"{count} {reason}" for reason, count in obstacles[:_REASONS]]
    if rest := sum(count for _, count in obstacles[_REASONS:]):
        shown.append(f"{rest} for other reasons")
    return "Running", "False", obstacles[0][0], f"{message}: {', '.join(shown)}"
