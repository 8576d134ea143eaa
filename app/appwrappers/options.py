"""What an AppWrapper asks of the controller by its annotations, and what the configuration allows. Pure.

Facts: names, defaults and bounds are those of AppWrapper v1.2. A value that cannot be read has the default.

The ConfigMap `appwrapper-operator-config` has the defaults of all AppWrappers, and what the controller does to Pods.
AppWrapper v1.2 reads exactly one key of it, of any name. Its parts for certificates, ports and leader election are
flags of Berth's roles, and are left unread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from app.appwrappers.model import ANNOTATIONS
from app.cel.libraries import parse_duration
from app.kube.configuration import yaml_in
from app.kube.names import check_dns_subdomain
from app.text import cut, quoted, wanted
from app.wire import JSON

_SECOND = 10**9
_HOUR = 3600.0
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
class AppWrapperOptions:
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


def read_options(annotations: Mapping[str, str], defaults: FaultTolerance) -> AppWrapperOptions:
    """The options of an AppWrapper with these annotations."""
    texts = _Said(annotations, defaults.grace_period_ceiling)
    terminal, retryable = texts.codes(TERMINAL_EXIT_CODES), texts.codes(RETRYABLE_EXIT_CODES)
    texts.in_both(terminal & retryable)
    return AppWrapperOptions(
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
        seconds = self._seconds(name, default)
        cut = self._cut(seconds)
        if cut != seconds:
            self._problem(name, f"want between 0s and {self._ceiling:g}s", f"{cut:g}s")
        return cut

    def ttl(self, default: float) -> float:
        """The default is also the bound. What is beyond it is not cut to it, but not used."""
        seconds = self._seconds(SUCCESS_TTL, default)
        if 0 < seconds <= default:
            return seconds
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
        codes = frozenset(int(item) for item in items if _INTEGER.fullmatch(item))
        if any(not _INTEGER.fullmatch(item) for item in items):
            self._problem(
                name, "want integers with commas and no spaces", cut(",".join(map(str, sorted(codes)))) or "none"
            )
        return codes

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

    def _problem(self, name: str, expected: str, used: str) -> None:
        got = quoted(self._annotations[name])
        self.problems.append(f"metadata.annotations[{name}]: {expected}, got {got}; {used} is used")


def seconds_of(text: str) -> float:
    """The seconds of a duration of Go, such as `1h30m`. Raises ValueError."""
    try:
        return parse_duration(text) / _SECOND
    except ValueError:
        raise ValueError(f"want a duration such as 90s or 1h30m, got {text!r}") from None


def _duration(value: Any) -> Any:
    """Seconds of nanoseconds, as Go writes a duration into YAML, or of a text as it prints one."""
    if isinstance(value, str):
        return seconds_of(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value / _SECOND
    raise ValueError(f"want nanoseconds or a duration such as 90s, got {value!r}")


Seconds = Annotated[float, BeforeValidator(_duration)]


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


class Taint(_Part):
    """A label that health checks put on nodes, and what it means for Pods that use the resource."""

    key: str
    value: str = ""
    effect: Literal["NoExecute", "NoSchedule", "PreferNoSchedule"]


_HEALTH = "autopilot.ibm.com/gpuhealth"

_TAINTS: dict[str, tuple[Taint, ...]] = {
    "nvidia.com/gpu": (
        Taint(key=_HEALTH, value="WARN", effect="PreferNoSchedule"),
        Taint(key=_HEALTH, value="TESTING", effect="NoSchedule"),
        Taint(key=_HEALTH, value="EVICT", effect="NoExecute"),
    )
}


class Autopilot(_Part):
    """How Pods are kept from unhealthy nodes; `resource_taints` are by resource.

    What the ConfigMap says of other resources than the default one is added, as Go decodes a map.
    """

    inject_anti_affinities: bool = True
    monitor_nodes: bool = True
    resource_taints: Annotated[dict[str, tuple[Taint, ...]], BeforeValidator(lambda value: _TAINTS | (value or {}))] = (
        Field(default_factory=lambda: dict(_TAINTS))
    )
    prefer_no_schedule_weight: int = Field(default=50, ge=1, le=100)


class FaultTolerance(_Part):
    """Times are in seconds. Those of an AppWrapper's annotations are cut to the ceilings.

    Of Berth's own: `restart_limit` is how often a container of a Pod may restart until a Pod that is in a crash loop
    is a failed one (negative: never). `retry_reset_period` is how long an AppWrapper has to be healthy until its
    retries are forgiven (0: never).
    """

    admission_grace_period: Seconds = 60.0
    warmup_grace_period: Seconds = 300.0
    failure_grace_period: Seconds = 60.0
    retry_pause: Seconds = Field(default=90.0, alias="resetPause")
    retry_limit: int = 3
    forceful_deletion_grace_period: Seconds = Field(default=600.0, alias="deletionGracePeriod")
    grace_period_ceiling: Seconds = 24 * _HOUR
    success_ttl: Seconds = Field(default=168 * _HOUR, alias="successTTLCeiling", gt=0)
    restart_limit: int = 10
    retry_reset_period: Seconds = 0.0

    @model_validator(mode="after")
    def _bounded(self) -> FaultTolerance:
        ceiling = self.grace_period_ceiling
        for name in (
            "forceful_deletion_grace_period",
            "retry_pause",
            "failure_grace_period",
            "admission_grace_period",
            "warmup_grace_period",
        ):
            if getattr(self, name) > ceiling:
                alias = type(self).model_fields[name].alias or to_camel(name)
                raise ValueError(
                    f"{alias}: want at most gracePeriodCeiling, {ceiling:g}s, got {getattr(self, name):g}s"
                )
        if self.admission_grace_period > self.warmup_grace_period:
            raise ValueError(
                f"admissionGracePeriod: want at most warmupGracePeriod, {self.warmup_grace_period:g}s, "
                f"got {self.admission_grace_period:g}s"
            )
        return self


def _queue(value: str) -> str:
    """Raises ValueError for what no LocalQueue is called; an empty text names none."""
    return check_dns_subdomain(value) if value else value


class OperatorConfig(_Part):
    """The part `appwrapper` of the configuration.

    Of Berth's own: `manage_jobs_without_queue_name` is what Kueue's configuration says, for AppWrappers that belong to
    an object without a queue.
    """

    autopilot: Autopilot = Autopilot()
    user_rbac_admission_check: bool = Field(default=True, alias="userRBACAdmissionCheck")
    fault_tolerance: FaultTolerance = FaultTolerance()
    scheduler_name: str = ""
    default_queue_name: Annotated[str, AfterValidator(_queue)] = ""
    manage_jobs_without_queue_name: bool = False


class _Whole(BaseModel):
    appwrapper: OperatorConfig = OperatorConfig()


def parse_config(config_map: JSON) -> OperatorConfig:
    """The configuration in a ConfigMap. Raises ValueError with the path of what is wrong."""
    data = config_map.get("data") or {}
    if len(data) != 1:
        raise ValueError(f"data: want exactly one key with the configuration as YAML, got {len(data)}")
    ((key, text),) = data.items()
    document = yaml_in(text, key)
    try:
        return _Whole.model_validate(_without_null(document) or {}).appwrapper
    except ValidationError as error:
        problems = [f"data[{key}]: {_said(item)}" for item in error.errors(include_url=False)]
        raise ValueError("; ".join(problems)) from error


def _said(item: ErrorDetails) -> str:
    path = ".".join(map(str, item["loc"])) or "appwrapper"
    return f"{path}: {wanted(item)}"


def _without_null(value: Any) -> Any:
    """What YAML leaves empty has its default, as Go decodes it."""
    if isinstance(value, dict):
        return {key: _without_null(below) for key, below in value.items() if below is not None}
    return value
