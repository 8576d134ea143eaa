"""What a Pod asks of RMD: a request of cache ways, and annotations CONTAINER_SETTING; container by container. Pure.

The node agent makes an RmdWorkload of each that qualifies, and admission says before why one will not. Names are
matched whole; the operator took any key that begins and ends as it should.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.kinds.requests import container_quality, pod_level, quality_of_service
from app.kube.names import shorten
from app.kube.quantity import QuantityError, parse, parse_integer
from app.kube.resources import PODS, controller_reference
from app.rmd.cores import numbers_of
from app.rmd.model import L3_CACHE_WAYS, RMD_WORKLOADS
from app.rmd.requests import read_spec
from app.text import quoted
from app.wire import JSON

SETTINGS = ("policy", "cache_min", "mba_percentage", "mba_mbps", "pstate_ratio", "pstate_monitoring")
_NUMBERS = ("cache_min", "mba_percentage", "mba_mbps")
_LONGEST_NAME = 253
_MOST_DIGITS = 12
_POOLED = (
    "spec.resources: kubelet gives no exclusive cores to containers of a Pod with resources of its own, unless its "
    "feature gate PodLevelResourceManagers is on"
)
_NOT_GUARANTEED = (
    "spec: without the quality of service Guaranteed there are no exclusive cores: want requests as limits"
)
_NAMED = 3
"""Containers that a message names."""
_UNEQUAL = "want requests of cpu and memory as limits: in a Pod with resources of its own, else no core is exclusive"
INFIX = "-rmd-workload-"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for. `spec` is that of its RmdWorkload but for cores and node.

    `problems` say why it will never get it, and name the field. `qualifies`: it gets exclusive cores.
    """

    container: str
    spec: JSON
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def qualifies(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class PodAsks:
    """`warnings` are about annotations that belong to no container that asks for cache ways."""

    containers: tuple[ContainerRequest, ...]
    warnings: tuple[str, ...]


def read_pod(pod: JSON) -> PodAsks:
    """Containers in the order of the Pod, init containers first."""
    spec: JSON = pod.get("spec") or {}
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    whole, problem = pod_level(spec), "" if quality_of_service(spec) == "Guaranteed" else _not_guaranteed(spec)
    requests: list[ContainerRequest] = []
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            ways = ways_of(container)
            if ways is not None:
                field = f"spec.{kind}[{index}]"
                ends = kind == "initContainers" and container.get("restartPolicy") != "Always"
                shared = whole and container_quality(container) != "Guaranteed"
                unequal = problem or (f"{field}.resources: {_UNEQUAL}" if shared else "")
                requests.append(_asked(container, ways, field, annotations, unequal=unequal, ends=ends))
    warnings = astray(spec, annotations, {ask.container for ask in requests})
    if requests and whole:
        warnings.append(_POOLED)
    return PodAsks(tuple(requests), tuple(warnings))


def _not_guaranteed(spec: JSON) -> str:
    """Names the first containers that lack it, where these decide."""
    lacking = [
        f"{container.get('name', '')} (spec.{kind}[{index}])"
        for kind in ("initContainers", "containers")
        for index, container in enumerate(spec.get(kind) or ())
        if container_quality(container) != "Guaranteed"
    ]
    if not lacking:
        return _NOT_GUARANTEED
    more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
    named = ", ".join(lacking[:_NAMED]) + more
    return f"{_NOT_GUARANTEED} of cpu and memory in each container, which these have not: {named}"


def workload_name(pod: str, container: str) -> str:
    """The name that the operator gives; one that is too long for an object ends with a digest of it."""
    return shorten(f"{pod}{INFIX}{container}", _LONGEST_NAME)


def workload_of(pod: JSON, request: ContainerRequest, cores: frozenset[int]) -> JSON:
    """The RmdWorkload of a container on the cores that it got. The Pod owns it, so that it goes with the Pod.

    Each core stands alone, as the operator has it: its users read them out of `spec.coreIds`.
    """
    metadata = pod["metadata"]
    return RMD_WORKLOADS.body(
        {
            "name": workload_name(metadata["name"], request.container),
            "namespace": metadata["namespace"],
            "ownerReferences": [controller_reference(PODS, metadata["name"], metadata["uid"])],
        },
        spec={**request.spec, "coreIds": list(numbers_of(cores)), "nodes": [pod["spec"]["nodeName"]]},
    )


def ways_of(container: JSON) -> object | None:
    """The limit of cache ways, None without one. An API server takes it for the request as well."""
    resources: JSON = container.get("resources") or {}
    limits: JSON = resources.get("limits") or {}
    return limits.get(L3_CACHE_WAYS)


def _asked(
    container: JSON, ways: object, field: str, annotations: Mapping[str, str], *, unequal: str, ends: bool
) -> ContainerRequest:
    name = container["name"]
    problems: list[str] = []
    try:
        most = parse_integer(ways)
    except ValueError as error:
        problems.append(f"{field}.resources.limits[{L3_CACHE_WAYS}]: {error}")
        most = 0
    if not problems and most == 0:
        problems.append(f"{field}.resources.limits[{L3_CACHE_WAYS}]: want 1 or more ways, got 0")
    problems += _without_cores(container, field, unequal=unequal, ends=ends)
    spec = settings_of(name, most, annotations, problems)
    read = read_spec({**spec, "coreIds": ["0"], "nodes": ["node"]})
    problems += [_in_annotations(line, name) for line in read.problems if most]
    return ContainerRequest(name, spec, tuple(problems), tuple(_in_annotations(line, name) for line in read.warnings))


def _without_cores(container: JSON, field: str, *, unequal: str, ends: bool) -> list[str]:
    """Why kubelet's static policy gives a container no cores of its own."""
    if ends:
        return [f"{field}: kubelet does not tell the cores of an init container that ends: want restartPolicy Always"]
    if unequal:
        return [unequal]
    limits = (container.get("resources") or {}).get("limits") or {}
    try:
        cpus = parse(limits.get("cpu", "0"))
    except QuantityError as error:
        return [f"{field}.resources.limits[cpu]: {error}"]
    if cpus != cpus.to_integral_value() or cpus <= 0:
        return [f"{field}.resources.limits[cpu]: want whole CPUs, which are exclusive cores, got {limits.get('cpu')}"]
    return []


def settings_of(name: str, ways: int, annotations: Mapping[str, str], problems: list[str]) -> JSON:
    """What the annotations of a container say, as the spec of an RmdWorkload; numbers that are none are `problems`."""
    settings = {setting: annotations[key] for setting in SETTINGS if (key := f"{name}_{setting}") in annotations}
    numbers: dict[str, int] = {}
    for setting in _NUMBERS:
        text = settings.get(setting)
        if text is not None and text.isascii() and text.isdigit():
            numbers[setting] = int(text.lstrip("0")[:_MOST_DIGITS] or 0)
        elif text is not None:
            problems.append(f"metadata.annotations[{name}_{setting}]: want a whole number, got {quoted(text)}")
    mba = {unit: numbers[f"mba_{unit}"] for unit in ("percentage", "mbps") if f"mba_{unit}" in numbers}
    pstate = {part: settings[f"pstate_{part}"] for part in ("ratio", "monitoring") if settings.get(f"pstate_{part}")}
    rdt: JSON = {"cache": {"max": ways, "min": numbers.get("cache_min", ways)}, **({"mba": mba} if mba else {})}
    return {
        "rdt": rdt,
        **({"policy": settings["policy"]} if settings.get("policy") else {}),
        **({"plugins": {"pstate": pstate}} if pstate else {}),
    }


_FIELDS = {
    "spec.rdt.cache.min": "cache_min",
    "spec.rdt.cache.max": "cache_min",
    "spec.rdt.mba.percentage": "mba_percentage",
    "spec.rdt.mba.mbps": "mba_mbps",
    "spec.plugins.pstate.ratio": "pstate_ratio",
    "spec.plugins.pstate.monitoring": "pstate_monitoring",
}


def _in_annotations(line: str, container: str) -> str:
    """A line about a field of the RmdWorkload, as one about the annotation that it comes from."""
    field, _, text = line.partition(": ")
    if field in _FIELDS:
        return f"metadata.annotations[{container}_{_FIELDS[field]}]: {text}"
    return f"container {container}: {text}"


def astray(spec: JSON, annotations: Mapping[str, str], asking: set[str]) -> list[str]:
    """Annotations that look like ours and have no effect, where the containers `asking` ask for something."""
    names = {container["name"] for kind in ("initContainers", "containers") for container in spec.get(kind) or ()}
    silent = names - asking
    texts = []
    for key in sorted(annotations):
        setting = next((name for name in SETTINGS if key.endswith(f"_{name}")), "")
        container = key.removesuffix(f"_{setting}") if setting else key.partition("_")[0]
        if not setting and container in asking and "/" not in key:
            texts.append(f"metadata.annotations[{key}]: unknown setting: want one of {', '.join(SETTINGS)}")
        elif setting and container in silent:
            texts.append(f"metadata.annotations[{key}]: has no effect: {container} asks for no {L3_CACHE_WAYS}")
        elif setting and container not in names and "/" not in key and asking:
            texts.append(f"metadata.annotations[{key}]: there is no container {quoted(container)}")
    return texts
