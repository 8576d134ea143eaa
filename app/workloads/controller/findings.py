"""What reconciles leave behind: why workloads lack companions, and when lost companions were replaced.

Findings are for the writers of statuses; in a healthy cluster there are none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.errors import ApiError, Transient
from app.kube.controller import Done, RequeueAfter, Result
from app.workloads.companions.plan import Planned
from app.workloads.model import ObjectKey, Policy, Problem, Waiting

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


class Findings:
    """Findings by workload and by rule."""

    def __init__(self) -> None:
        self._by_workload: dict[ObjectKey, dict[ObjectKey, Finding]] = {}
        self._by_rule: dict[ObjectKey, dict[ObjectKey, Finding]] = {}

    def put(self, workload: ObjectKey, found: Mapping[ObjectKey, Finding]) -> None:
        """Replace all that is known of a workload; `found` is by rule."""
        before = self._by_workload.get(workload, {})
        for rule in before.keys() - found.keys():
            del self._by_rule[rule][workload]
            if not self._by_rule[rule]:
                del self._by_rule[rule]
        for rule, finding in found.items():
            self._by_rule.setdefault(rule, {})[workload] = finding
        if found:
            self._by_workload[workload] = dict(found)
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
        return max(0.0, last + min(self._cap, self._pause * 2.0 ** min(times - 1, 32)) - self._clock())

    def made(self, companion: ObjectKey) -> None:
        now = self._clock()
        # Not every companion is forgotten by its end; those calm for long enough count no more. Oldest first.
        while self._made and now - next(iter(self._made.values()))[1] > self._cap + _CALM:
            del self._made[next(iter(self._made))]
        times, _ = self._made.pop(companion, (0, now))
        self._made[companion] = (times + 1, now)

    def forget(self, companion: ObjectKey) -> None:
        self._made.pop(companion, None)
