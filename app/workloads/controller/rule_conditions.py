"""What the conditions `Matched` and `Running` of a rule say: which workloads it matches, which companions run. Pure.

They do not decide the result of a rule, whose words are those of the Workload API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.kube.conditions import Truth
from app.text import abridged
from app.workloads.companions.standing import RUNS
from app.workloads.model import Term
from app.workloads.rules.key_reach import without_match

_REASONS = 8
"""Reasons that a message names, the most frequent first."""

Condition = tuple[str, Truth, str, str]
"""Type, status, reason and message."""


def matched(count: int, terms: Iterable[Term]) -> Condition:
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


def running(standings: Mapping[str, int]) -> Condition:
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
