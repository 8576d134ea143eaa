"""What an RmdWorkload asks for: its spec, read once, with what is wrong in it. Pure.

The rules are those of the daemon, RMD v0.3: of workload.Validate and of the pools of its resctrl allocation. A value
that a daemon would refuse on every machine is a problem. What may work on some machine is a warning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.rmd.cores import MOST_RANGES, Range, cores_in, count_ranges, parse_ranges
from app.text import quoted
from app.wire import JSON

T = TypeVar("T", bound=Sized)
MOST_MBPS = 4294967290
_UNSIGNED = 2**32 - 1
MOST_NODES, MOST_LABELS = 5000, 256
"""Nodes of one RmdWorkload: the state of each is in its status. Labels of its selector."""
MONITORING = ("on", "off")
_LARGEST_RATIO = 255.0
"""A ratio of core clock to bus clock is a byte in the register of the CPU."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked for the cores of one reservation. None and "" are left out of the request.

    `cache` is (max, min) in ways. `percentage` and `mbps` are memory bandwidth. A daemon replaces the cache by that of
    the policy, and never enforces bandwidth with a policy: both are left out beside one.
    """

    policy: str = ""
    cache: tuple[int, int] | None = None
    percentage: int | None = None
    mbps: int | None = None
    ratio: float | None = None
    monitoring: str = ""

    @property
    def bandwidth(self) -> bool:
        return self.percentage is not None or self.mbps is not None

    @property
    def plugins(self) -> bool:
        return self.ratio is not None or bool(self.monitoring)


@dataclass(frozen=True, slots=True)
class Request:
    """The spec of an RmdWorkload. `cores` are those that it names, `reserved` those that `all_cores` leaves out.

    `numbered`: it names each core alone, and no range.
    """

    settings: Settings
    all_cores: bool = False
    cores: frozenset[int] = frozenset()
    reserved: frozenset[int] = frozenset()
    numbered: bool = False
    nodes: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Findings:
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Read:
    """`problems` and `warnings` are lines that name the field. With a problem no daemon is asked."""

    request: Request
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def read_spec(spec: JSON) -> Read:
    """Where the spec has not the types that the CustomResourceDefinition gives it, it has a problem."""
    findings = _Findings()
    request = Request(
        settings=_settings(spec, findings),
        all_cores=bool(spec.get("allCores")),
        cores=_cores(spec, "coreIds", findings),
        reserved=_cores(spec, "reservedCoreIds", findings),
        numbered=not spec.get("allCores") and "".join(spec.get("coreIds") or ()).isdecimal(),
        nodes=_nodes(spec, findings),
        node_selector=_selector(spec, findings),
    )
    _check_cores(spec, request, findings)
    if request.node_selector and request.nodes:
        findings.warnings.append("spec.nodes: has no effect beside spec.nodeSelector")
    elif not request.node_selector and not request.nodes:
        findings.warnings.append("spec: neither nodes nor nodeSelector: nothing is reserved on any node")
    return Read(request, tuple(findings.problems), tuple(findings.warnings))


def _bounded(value: T, name: str, most: int, findings: _Findings) -> T:
    """The value, with a problem where there is more in it than it may have; then nothing of it is used."""
    if len(value) <= most:
        return value
    findings.problems.append(f"spec.{name}: want at most {most}, got {len(value)}")
    return type(value)()


def _cores(spec: JSON, name: str, findings: _Findings) -> frozenset[int]:
    ranges: list[Range] = []
    texts = spec.get(name) or ()
    if (count := count_ranges(texts)) > MOST_RANGES:
        findings.problems.append(f"spec.{name}: want at most {MOST_RANGES} cores and ranges, got {count}")
        return frozenset()
    for index, text in enumerate(texts):
        try:
            ranges += parse_ranges(text)
        except ValueError as error:
            findings.problems.append(f"spec.{name}[{index}]: {error}")
    return cores_in(ranges)


def _check_cores(spec: JSON, request: Request, findings: _Findings) -> None:
    if request.all_cores:
        if spec.get("coreIds"):
            findings.warnings.append("spec.coreIds: has no effect beside spec.allCores")
        return
    if spec.get("reservedCoreIds"):
        findings.warnings.append("spec.reservedCoreIds: has no effect without spec.allCores")
    if not request.cores and not any(
        problem.startswith(("spec.coreIds[", "spec.coreIds:")) for problem in findings.problems
    ):
        findings.problems.append(
            'spec.coreIds: required: the cores to reserve for (["0-3", "6"]), or spec.allCores: true'
        )


def _settings(spec: JSON, findings: _Findings) -> Settings:
    rdt, plugins = spec.get("rdt") or {}, spec.get("plugins") or {}
    cache = _moved(rdt.get("cache"), "spec.rdt.cache", spec.get("cache"), "spec.cache", findings)
    pstate = _moved(plugins.get("pstate"), "spec.plugins.pstate", spec.get("pstate"), "spec.pstate", findings)
    mba = rdt.get("mba") or {}
    policy = str(spec.get("policy") or "")
    settings = Settings(
        policy=policy,
        cache=_cache(cache, findings),
        percentage=_bandwidth(mba, "percentage", 100, findings),
        mbps=_bandwidth(mba, "mbps", MOST_MBPS, findings),
        ratio=_ratio(pstate.get("ratio"), findings),
        monitoring=_monitoring(pstate.get("monitoring"), findings),
    )
    if policy:
        return _with_policy(settings, cache, findings)
    _check_bandwidth(settings, findings)
    if not (settings.cache or settings.bandwidth or settings.plugins) and not findings.problems:
        findings.problems.append("spec: asks for nothing: want policy, rdt.cache, rdt.mba or plugins.pstate")
    return settings


def _moved(now: Any, place: str, old: Any, old_place: str, findings: _Findings) -> JSON:
    """A value of v0.1 counts where there is none in the place of today."""
    if old and now:
        findings.warnings.append(f"{old_place}: has no effect beside {place}")
    elif old:
        findings.warnings.append(f"{old_place}: is the form of v0.1 and taken for {place}")
    return dict(now or old or {})


def _with_policy(settings: Settings, cache: JSON, findings: _Findings) -> Settings:
    if cache:
        findings.warnings.append(f"spec.rdt.cache: policy {quoted(settings.policy)} wins and has its own cache ways")
    if settings.bandwidth:
        findings.warnings.append("spec.rdt.mba: a daemon does not enforce bandwidth beside a policy: it is left out")
    return Settings(policy=settings.policy, ratio=settings.ratio, monitoring=settings.monitoring)


def _cache(cache: JSON, findings: _Findings) -> tuple[int, int] | None:
    most, least = cache.get("max"), cache.get("min")
    if most is None and least is None:
        return None
    for name, value in (("max", most), ("min", least)):
        if value is None:
            findings.problems.append(f"spec.rdt.cache.{name}: required beside the other: max and min, in ways")
        elif not 0 <= value <= _UNSIGNED:
            findings.problems.append(f"spec.rdt.cache.{name}: want a number of ways, got {value}")
    if most is None or least is None:
        return None
    if least > most:
        findings.problems.append(f"spec.rdt.cache.min: want at most max, {most}, got {least}")
    elif least == 0 < most:
        findings.problems.append(f"spec.rdt.cache.min: want 1 to {most} beside max {most}: no pool has a min of 0")
    return most, least


def _bandwidth(mba: JSON, name: str, most: int, findings: _Findings) -> int | None:
    """0 means that it is not set."""
    value = mba.get(name) or None
    if value is not None and not 1 <= value <= most:
        findings.problems.append(f"spec.rdt.mba.{name}: want 1 to {most}, got {value}")
    return value


def _check_bandwidth(settings: Settings, findings: _Findings) -> None:
    percentage, mbps, cache = settings.percentage, settings.mbps, settings.cache
    if percentage is not None and mbps is not None:
        findings.problems.append(
            "spec.rdt.mba: percentage and mbps exclude each other: want the one of the daemon's mode"
        )
    elif cache is None and mbps is not None:
        findings.problems.append("spec.rdt.mba.mbps: wants spec.rdt.cache beside it: no daemon takes mbps alone")
    elif cache is None and percentage is not None:
        findings.warnings.append("spec.rdt.mba.percentage: without spec.rdt.cache only machines without L3 CAT take it")
    elif cache is not None and settings.bandwidth and not 0 < cache[0] == cache[1] and not _all(settings):
        findings.problems.append(
            "spec.rdt.mba: wants guaranteed cache: spec.rdt.cache.min and max have to be the same and above 0, "
            f"got {cache[1]} and {cache[0]}"
        )


def _all(settings: Settings) -> bool:
    """Whether the bandwidth is no bound."""
    return settings.percentage == 100 or settings.mbps == MOST_MBPS


def _ratio(text: Any, findings: _Findings) -> float | None:
    """The operator takes 0 for not set."""
    if not text:
        return None
    try:
        # Python reads more than the daemon: digits of other scripts, and _ between them.
        value = float(text) if str(text).isascii() and "_" not in str(text) else math.nan
    except ValueError:
        value = math.nan
    if value == 0:
        return None
    if not 0 < value <= _LARGEST_RATIO:
        findings.problems.append(f'spec.plugins.pstate.ratio: want a positive number such as "1.5", got {quoted(text)}')
        return None
    return value


def _nodes(spec: JSON, findings: _Findings) -> tuple[str, ...]:
    nodes: Any = spec.get("nodes") or []
    listed = nodes if isinstance(nodes, list) else []
    names = [node for node in listed if isinstance(node, str)]
    if nodes != names:
        findings.problems.append("spec.nodes: want a list of names of nodes")
    return tuple(dict.fromkeys(_bounded(names, "nodes", MOST_NODES, findings)))


def _selector(spec: JSON, findings: _Findings) -> dict[str, str]:
    selector: Any = spec.get("nodeSelector") or {}
    if not isinstance(selector, dict) or not all(isinstance(value, str) for value in selector.values()):
        findings.problems.append("spec.nodeSelector: want a map of labels, whose values are texts")
        return {}
    return dict(_bounded(selector, "nodeSelector", MOST_LABELS, findings))


def _monitoring(text: Any, findings: _Findings) -> str:
    if text and text not in MONITORING:
        findings.problems.append(f"spec.plugins.pstate.monitoring: want on or off, got {quoted(text)}")
        return ""
    return str(text or "")
