"""What an AppWrapper asks of the controller by its annotations, within what the configuration allows. Pure.

Facts: names, defaults and bounds are those of AppWrapper v1.2. A value that cannot be read has the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.appwrappers.config import FaultTolerance, seconds_of
from app.appwrappers.model import ANNOTATIONS
from app.text import cut, quoted

_MOST = 2**31 - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")

ADMISSION_GRACE = f"{ANNOTATIONS}admissionGracePeriodDuration"
WARMUP_GRACE = f"{ANNOTATIONS}warmupGracePeriodDuration"
FAILURE_GRACE = f"{ANNOTATIONS}failureGracePeriodDuration"
RETRY_PAUSE = f"{ANNOTATIONS}retryPausePeriodDuration"
RETRY_LIMIT = f"{ANNOTATIONS}retryLimit"
DELETION_GRACE = f"{ANNOTATIONS}forcefulDeletionGracePeriodDuration"
DELETION_ON_FAILURE = f"{ANNOTATIONS}deletionOnFailureGracePeriodDuration"
SUCCESS_TTL = f"{ANNOTATIONS}successTTLDuration"
TERMINAL_EXIT_CODES = f"{ANNOTATIONS}terminalExitCodes"
RETRYABLE_EXIT_CODES = f"{ANNOTATIONS}retryableExitCodes"
RESTART_LIMIT = f"{ANNOTATIONS}restartLimit"
RETRY_RESET = f"{ANNOTATIONS}retryResetPeriodDuration"
KNOWN = (
    ADMISSION_GRACE,
    WARMUP_GRACE,
    FAILURE_GRACE,
    RETRY_PAUSE,
    RETRY_LIMIT,
    DELETION_GRACE,
    DELETION_ON_FAILURE,
    SUCCESS_TTL,
    TERMINAL_EXIT_CODES,
    RETRYABLE_EXIT_CODES,
    RESTART_LIMIT,
    RETRY_RESET,
)
"""Every annotation of an AppWrapper that means something. The last two are of Berth's own."""


@dataclass(frozen=True, slots=True)
class Options:
    """Times are in seconds. `problems` has a line for each annotation whose value is not used as it is."""

    admission_grace: float
    warmup_grace: float
    failure_grace: float
    retry_pause: float
    retry_limit: int
    deletion_grace: float
    deletion_on_failure: float
    success_ttl: float
    restart_limit: int
    retry_reset: float
    terminal_exit_codes: frozenset[int] = frozenset()
    retryable_exit_codes: frozenset[int] = frozenset()
    problems: tuple[str, ...] = ()

    def is_terminal(self, code: int) -> bool:
        """Whether a container that ended with this code makes a retry pointless."""
        if code == 0:
            return False
        retryable = self.retryable_exit_codes
        return code in self.terminal_exit_codes or (bool(retryable) and code not in retryable)

    def why_terminal(self, code: int) -> str:
        """By which annotation it does."""
        name, not_ = ("terminalExitCodes", "") if code in self.terminal_exit_codes else ("retryableExitCodes", "not ")
        return f"exit code {code} is {not_}among {name}"


def read_options(annotations: Mapping[str, str], defaults: FaultTolerance) -> Options:
    """The options of an AppWrapper with these annotations."""
    texts = _Said(annotations, defaults.grace_period_ceiling)
    terminal, retryable = texts.codes(TERMINAL_EXIT_CODES), texts.codes(RETRYABLE_EXIT_CODES)
    texts.in_both(terminal & retryable)
    return Options(
        admission_grace=texts.duration(ADMISSION_GRACE, defaults.admission_grace_period),
        warmup_grace=texts.duration(WARMUP_GRACE, defaults.warmup_grace_period),
        failure_grace=texts.duration(FAILURE_GRACE, defaults.failure_grace_period),
        retry_pause=texts.duration(RETRY_PAUSE, defaults.retry_pause),
        retry_limit=texts.integer(RETRY_LIMIT, defaults.retry_limit, least=0),
        deletion_grace=texts.duration(DELETION_GRACE, defaults.forceful_deletion_grace_period),
        deletion_on_failure=texts.duration(DELETION_ON_FAILURE, 0.0),
        success_ttl=texts.ttl(defaults.success_ttl),
        restart_limit=texts.integer(RESTART_LIMIT, defaults.restart_limit),
        retry_reset=texts.duration(RETRY_RESET, defaults.retry_reset_period),
        terminal_exit_codes=terminal,
        retryable_exit_codes=retryable,
        problems=tuple(texts.problems),
    )


class _Said:
    """Reads annotations one by one, and collects what is wrong with them. Durations are at most the `ceiling`."""

    def __init__(self, annotations: Mapping[str, str], ceiling: float) -> None:
        self._annotations, self._ceiling = annotations, ceiling
        self.problems: list[str] = []

    def duration(self, name: str, default: float) -> float:
        default = self._cut(default)
        found = self._seconds(name, default)
        cut = self._cut(found)
        if cut != found:
            self._problem(name, f"want between 0s and {self._ceiling:g}s", f"{cut:g}s")
        return cut

    def ttl(self, default: float) -> float:
        """The default is also the bound. What is beyond it is not cut to it, but not used."""
        found = self._seconds(SUCCESS_TTL, default)
        if 0 < found <= default:
            return found
        self._problem(SUCCESS_TTL, f"want more than 0s and less than {default:g}s", f"{default:g}s")
        return default

    def integer(self, name: str, default: int, *, least: int = -_MOST) -> int:
        """What is out of bounds is cut to them."""
        text = self._annotations.get(name)
        if text is None:
            return default
        if not _INTEGER.fullmatch(text):
            self._problem(name, "want an integer", str(default))
            return default
        used = min(max(int(text), least), _MOST)
        if used != int(text):
            self._problem(name, f"want an integer from {least} to {_MOST}", str(used))
        return used

    def codes(self, name: str) -> frozenset[int]:
        items = [item for item in self._annotations.get(name, "").split(",") if item]
        found = frozenset(int(item) for item in items if _INTEGER.fullmatch(item))
        if any(not _INTEGER.fullmatch(item) for item in items):
            self._problem(
                name, "want integers with commas and no spaces", cut(",".join(map(str, sorted(found)))) or "none"
            )
        return found

    def in_both(self, codes: frozenset[int]) -> None:
        if codes:
            used = f"{cut(', '.join(map(str, sorted(codes))))} as in {TERMINAL_EXIT_CODES}"
            self._problem(RETRYABLE_EXIT_CODES, "want no code that is terminal", used)

    def _cut(self, seconds: float) -> float:
        return min(max(seconds, 0.0), self._ceiling)

    def _seconds(self, name: str, default: float) -> float:
        text = self._annotations.get(name)
        try:
            return default if text is None else seconds_of(text)
        except ValueError:
            self._problem(name, "want a duration such as 90s or 1h30m", f"{default:g}s")
            return default

    def _problem(self, name: str, wanted: str, used: str) -> None:
        got = quoted(self._annotations[name])
        self.problems.append(f"metadata.annotations[{name}]: {wanted}, got {got}; {used} is used")
