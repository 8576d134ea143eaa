"""The ConfigMap `appwrapper-operator-config`: the defaults of all AppWrappers, and what the controller does to Pods.

Facts: keys, defaults and rules are those of AppWrapper v1.2, which reads exactly one key of the ConfigMap, of any name.
Its parts for certificates, ports and leader election are flags of Berth's roles, and are left unread.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from app.cel.patterns import parse_duration
from app.kube.configuration import yaml_in
from app.kube.names import check_dns_subdomain
from app.text import wanted
from app.wire import JSON

_SECOND = 10**9
_HOUR = 3600.0


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
