"""Why workloads lack companions: what a refusal of the API server means, and what the last reconcile found.

Only problems are stored, for the writers of statuses; in a healthy cluster there are none.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.errors import ApiError
from app.workloads.model import ObjectKey, Problem, Waiting

Finding = Problem | Waiting
REPLACING = "Replacing"
"""Reason of a companion whose predecessor is still ending."""
DENIED_PAUSE = 1.0
"""Seconds at least between two tries of what was denied; they grow from there."""
SERVER_ERROR = "ServerError"
"""Reason of a companion of which it is not known whether it was made."""
GONE_PAUSE = 5.0
"""Where the namespace is missing or on its way out, nothing will change soon."""


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
            return Problem(SERVER_ERROR, text)
        case 0 | 401 | 409 | 429:
            return None
        case _:
            return Problem("Denied", text)


def pause_of(problem: Problem | None) -> float | None:
    """The least wait in seconds before the next try; None leaves it to the usual backoff."""
    if problem is None:
        return None
    return GONE_PAUSE if problem.reason in ("NamespaceTerminating", "NamespaceMissing") else DENIED_PAUSE
