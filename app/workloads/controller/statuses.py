"""What the statuses of Workloads and rules say. Pure: from what is known to the JSON, and nothing is sent.

The words are those of the Workload API: result "success" or "error" with an empty message where nothing is wrong. The
conditions `Matched` and `Running` of a rule do not decide its result. That no workload can ever match is a message.

Findings are what reconciles leave behind: why workloads lack companions, and when lost companions were replaced. In a
healthy cluster there are none.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.errors import ApiError, Transient
from app.kube.conditions import Truth, since
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.resources import PODS
from app.kube.retry import Backoff
from app.text import MESSAGE, abridged, cut
from app.wire import JSON
from app.workloads.companions.marks import RUNS, Companion
from app.workloads.companions.plan import Planned
from app.workloads.model import IMPOSSIBLE, ObjectKey, Policy, Problem, RuleKind, Term, Waiting
from app.workloads.rules.key_reach import NEVER, impossible, without_match

Finding = Problem | Waiting
REPLACING = "Replacing"
"""Reason of a companion whose predecessor is still ending."""
DENIED_PAUSE = 1.0
"""Seconds at least between two tries of what was denied; they grow from there."""
_SERVER_ERROR = "ServerError"
"""Reason of a companion of which it is not known whether it was made."""
GONE_PAUSE = 5.0
"""Where the namespace is missing or on its way out, nothing will change soon."""
_CALM = 600.0
"""Seconds without a loss after which the pauses of a companion start small again."""
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
    counts = Counter(standings) + Counter(lacking or {})
    counts[_NOT_CREATED] += max(0, matched - counts.total())
    matching = matched_condition(matched, terms)
    if matching[2] == IMPOSSIBLE:
        # The result stays: nothing has failed, and by the Workload API it says no more than that.
        message = message or matching[3]
    conditions = (("Ready", ready, reason, explanation), matching, running_condition(counts))
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
    if (never := impossible(terms)) is not None:
        return "Matched", "False", IMPOSSIBLE, abridged(NEVER.format(*never))
    for path, why in without_match(terms):
        message = f"no workload matches, and this term holds for none: spec.{path}: {why}"
        return "Matched", "False", "NoWorkloadMatches", abridged(message)
    return "Matched", "False", "NoWorkloadMatches", "no workload matches"


def running_condition(standings: Mapping[str, int]) -> _Condition:
    """`standings` are how many companions run (`RUNS`), and how many do not or are missing, by the reason."""
    counts = {standing: count for standing, count in standings.items() if count > 0}
    total = sum(counts.values())
    if not total:
        return "Running", "False", "NoCompanion", "there are no companions to run"
    runs = counts.pop(RUNS, 0)
    message = f"{runs} of {total} companions run"
    if not counts:
        return "Running", "True", "CompanionsRun", message
    obstacles = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{count} {reason}" for reason, count in obstacles[:_REASONS]]
    if rest := sum(count for _, count in obstacles[_REASONS:]):
        shown.append(f"{rest} for other reasons")
    return "Running", "False", obstacles[0][0], f"{message}: {', '.join(shown)}"


class Findings:
    """Findings by workload and by rule."""

    def __init__(self) -> None:
        self._by_workload: dict[ObjectKey, dict[ObjectKey, Finding]] = {}
        self._by_rule: dict[ObjectKey, dict[ObjectKey, Finding]] = {}

    def put(self, workload: ObjectKey, findings: Mapping[ObjectKey, Finding]) -> None:
        """Replace all that is known of a workload; `findings` is by rule."""
        before = self._by_workload.get(workload, {})
        for rule in before.keys() - findings.keys():
            del self._by_rule[rule][workload]
            if not self._by_rule[rule]:
                del self._by_rule[rule]
        for rule, finding in findings.items():
            self._by_rule.setdefault(rule, {})[workload] = finding
        if findings:
            self._by_workload[workload] = dict(findings)
        else:
            self._by_workload.pop(workload, None)

    def of_workload(self, workload: ObjectKey) -> Mapping[ObjectKey, Finding]:
        return self._by_workload.get(workload, {})

    def of_rule(self, rule: ObjectKey) -> Mapping[ObjectKey, Finding]:
        return self._by_rule.get(rule, {})


def problem_of(error: ApiError) -> Problem | None:
    """Why a companion could not be written; None for what passes by itself (no answer, throttled, a conflict)."""
    text = str(error).partition(f"HTTP {error.status}: ")[2] or str(error)
    match error.status:
        case 403 if error.exceeded_quota:
            return Problem("QuotaExceeded", text)
        case 403 if "being terminated" in text:
            return Problem("NamespaceTerminating", text)
        case 404:
            return Problem("NamespaceMissing", text)
        case _ if error.rejected and "admission webhook" not in text:
            return Problem("Invalid", text)
        case status if status >= 500:
            return Problem(_SERVER_ERROR, text)
        case 0 | 401 | 409 | 429:
            return None
        case _:
            return Problem("Denied", text)


def pause_of(problem: Problem | None) -> float | None:
    """The least wait in seconds before the next try; None leaves it to the usual backoff."""
    if problem is None:
        return None
    return GONE_PAUSE if problem.reason in ("NamespaceTerminating", "NamespaceMissing") else DENIED_PAUSE


class _ExpectedError(Transient):
    """A reason that is in the statuses already."""

    expected = True


class RefusedError(_ExpectedError):
    """What keeps one companion from being made, other than an error of the API server."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message, delay=DENIED_PAUSE)
        self.finding = finding


@dataclass(slots=True)
class Run:
    """One reconcile of a workload: what it wants, by companion, and what stands in the way, by rule."""

    workload: ObjectKey
    waited_before: bool
    findings: dict[ObjectKey, Finding] = field(default_factory=dict)
    desired: dict[ObjectKey, Planned] = field(default_factory=dict)
    failures: list[Transient] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    waits: set[Policy] = field(default_factory=set)
    full: dict[str, Problem] = field(default_factory=dict)

    def failed(self, rule: ObjectKey, error: RefusedError | ApiError) -> None:
        """One companion could not be made, changed or deleted."""
        if isinstance(error, RefusedError):
            self.findings[rule] = error.finding
            self.failures.append(error)
            return
        problem = problem_of(error)
        if problem is not None:
            self.findings[rule] = problem
        self.failures.append(Transient(str(error), delay=max(pause_of(problem) or 0.0, error.delay or 0.0) or None))

    def holds(self) -> set[ObjectKey]:
        """The companions that keep a place: an API server that failed may have made one that it did not confirm."""
        refused = {
            rule
            for rule, finding in self.findings.items()
            if isinstance(finding, Problem) and finding.reason != _SERVER_ERROR
        }
        return {planned.key for planned in self.desired.values() if planned.rule not in refused}

    def result(self) -> Result:
        """Raises Transient where something failed that is worth another try."""
        if self.failures:
            kind = _ExpectedError if all(failure.expected for failure in self.failures) else Transient
            raise kind(str(self.failures[0]), delay=max(failure.delay or 0.0 for failure in self.failures) or None)
        return RequeueAfter(min(self.again)) if self.again else Done()


class Restarts:
    """When a companion that was lost may be replaced: at once, and then after pauses from `pause` to `cap` seconds."""

    def __init__(self, *, pause: float, cap: float = 300.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause, self._cap, self._clock = pause, cap, clock
        self._made: dict[ObjectKey, tuple[int, float]] = {}

    def wait(self, companion: ObjectKey) -> float:
        """Seconds until it may be replaced; 0 now."""
        times, last = self._made.get(companion, (0, 0.0))
        if not times:
            return 0.0
        return max(0.0, last + Backoff(self._pause, self._cap, attempts=times - 1).limit - self._clock())

    def made(self, companion: ObjectKey) -> None:
        now = self._clock()
        # Not every companion is forgotten by its end; those calm for long enough count no more. Oldest first.
        while self._made and now - next(iter(self._made.values()))[1] > self._cap + _CALM:
            del self._made[next(iter(self._made))]
        times, _ = self._made.pop(companion, (0, now))
        self._made[companion] = (times + 1, now)

    def forget(self, companion: ObjectKey) -> None:
        self._made.pop(companion, None)
