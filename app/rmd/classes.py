"""The RDT classes that the container runtime has, and which of them serves what a container asks for. Pure.

Facts: goresctrl reads class and annotation in containerd and CRI-O (pkg/rdt/kubernetes.go); the resource policies of
NRI plugins have an annotation of their own. A class is a part of the cache that is set up before, and several
containers may share it; so none has to have exclusive cores. A ConfigMap tells Berth the classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from reprlib import Repr
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from app.kube.configuration import yaml_in
from app.rmd.requests import MOST_MBPS
from app.text import quoted, wanted
from app.wire import JSON

KEYS = {
    "containerd": "rdt.resources.beta.kubernetes.io/container.",
    "nri": "rdtclass.resource-policy.nri.io/container.",
}
"""How the annotations begin that end with the name of a container."""
_ROOT = "system/default"
"""The one class of goresctrl with a name that is no name of a file."""
_LONGEST_FILE = 255
KEY = "classes.yaml"
_SHORT = Repr()
_SHORT.maxlevel = 3


@dataclass(frozen=True, slots=True)
class Wish:
    """What a container asks for. None and "" are not asked for; `least` is enough where no class has so many `ways`."""

    policy: str = ""
    ways: int | None = None
    least: int | None = None
    percentage: int | None = None
    mbps: int | None = None

    def __str__(self) -> str:
        return f"policy {quoted(self.policy)}" if self.policy else described(self.ways, self.percentage, self.mbps)


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra="forbid")


def _class_name(name: str) -> str:
    plain = name not in ("", ".", "..") and name.isprintable() and len(name.encode()) <= _LONGEST_FILE
    if name == _ROOT or (plain and "/" not in name):
        return name
    raise ValueError(f"want a name that a folder can have, or {_ROOT}, got {quoted(name)}")


def _policy_name(name: str) -> str:
    if not name.strip():
        raise ValueError("want the name of a policy, such as gold")
    return name


class RdtClass(_Part):
    """One class. It serves the `policy` of that name, and requests of at most its ways and bandwidth."""

    name: Annotated[StrictStr, AfterValidator(_class_name)]
    policy: Annotated[StrictStr, AfterValidator(_policy_name)] | None = None
    cache_ways: StrictInt | None = Field(None, ge=1)
    mba_percentage: StrictInt | None = Field(None, ge=1, le=100)
    mba_mbps: StrictInt | None = Field(None, ge=1, le=MOST_MBPS)

    @property
    def values(self) -> tuple[int | None, ...]:
        return self.cache_ways, self.mba_percentage, self.mba_mbps

    def __str__(self) -> str:
        parts = [f"policy {self.policy}"] if self.policy else []
        parts += [described(*self.values)] if any(self.values) else []
        return f"{self.name} ({', '.join(parts)})"


class Classes(_Part):
    """`annotations` says whose annotations name the class. `no_class` is what becomes of a Pod that no class serves."""

    annotations: Literal["containerd", "nri"] = "containerd"
    no_class: Literal["Deny", "Warn"] = "Deny"
    classes: tuple[RdtClass, ...] = ()

    @property
    def key(self) -> str:
        return KEYS[self.annotations]

    @property
    def pod_key(self) -> str:
        """The annotation with the class of all containers that have none of their own."""
        return self.key.removesuffix("container.") + "pod"

    def __str__(self) -> str:
        return ", ".join(map(str, self.classes)) or "none"


def choose(wish: Wish, classes: Sequence[RdtClass]) -> RdtClass | None:
    """A policy by its name. Else the class with the fewest ways, then the least bandwidth, that has what is asked for.

    A class without ways, or without a bound of bandwidth in this unit, serves no request with one, and the other way
    round. Where no class has all the ways, the one with the most of them that has the least number will do.
    """
    if wish.policy:
        return next((rdt_class for rdt_class in classes if rdt_class.policy == wish.policy), None)
    values = (wish.ways, wish.percentage, wish.mbps)
    alike = [rdt_class for rdt_class in classes if any(rdt_class.values) and _same_kinds(rdt_class.values, values)]
    enough = [rdt_class for rdt_class in alike if _has(rdt_class, values)]
    if not enough and wish.least:
        fewer = [rdt_class for rdt_class in alike if _has(rdt_class, (wish.least, *values[1:]))]
        most = max((rdt_class.cache_ways or 0 for rdt_class in fewer), default=0)
        enough = [rdt_class for rdt_class in fewer if rdt_class.cache_ways == most]
    return min(enough, key=lambda rdt_class: tuple(value or 0 for value in rdt_class.values), default=None)


def _same_kinds(values: Sequence[int | None], wishes: Sequence[int | None]) -> bool:
    return [value is None for value in values] == [value is None for value in wishes]


def _has(rdt_class: RdtClass, wishes: Sequence[int | None]) -> bool:
    return all((value or 0) >= (least or 0) for value, least in zip(rdt_class.values, wishes, strict=True))


def described(ways: int | None, percentage: int | None, mbps: int | None) -> str:
    """Ways and bandwidth, as messages say them."""
    shown = (
        (ways, "cache way", "s"),
        (percentage, "% of memory bandwidth", ""),
        (mbps, "MB/s of memory bandwidth", ""),
    )
    return " and ".join(f"{value} {unit}{end if value != 1 else ''}" for value, unit, end in shown if value is not None)


def parse_classes(config_map: JSON) -> Classes:
    """The classes in a ConfigMap. Raises ValueError with the path of all that is wrong, or can never be chosen."""
    text = (config_map.get("data") or {}).get(KEY)
    if text is None:
        raise ValueError(f"data[{KEY}]: required: the classes of the container runtime, as YAML")
    document = yaml_in(text, KEY)
    try:
        classes = Classes.model_validate({} if document is None else document)
    except ValidationError as error:
        problems = [_problem(item) for item in error.errors(include_url=False)]
        raise ValueError("; ".join(f"data[{KEY}]: {problem}" for problem in problems)) from error
    if unused := list(_never_chosen(classes.classes)):
        raise ValueError("; ".join(f"data[{KEY}]: {problem}" for problem in unused))
    return classes


def _never_chosen(classes: Sequence[RdtClass]) -> Iterator[str]:
    for index, rdt_class in enumerate(classes):
        before, place = classes[:index], f"classes[{index}]"
        if any(other.name == rdt_class.name for other in before):
            yield f"{place}.name: {quoted(rdt_class.name)} is there already: want each class once"
        if rdt_class.mba_percentage is not None and rdt_class.mba_mbps is not None:
            yield f"{place}.mbaMbps: excludes mbaPercentage: want the one of the machines"
        if rdt_class.policy is None and not any(rdt_class.values):
            yield f"{place}: serves nothing: want policy, cacheWays, mbaPercentage or mbaMbps"
        if rdt_class.policy is not None and (
            first := next((other for other in before if other.policy == rdt_class.policy), None)
        ):
            yield f"{place}.policy: class {first.name} serves it already: want another policy"
        if any(rdt_class.values) and (
            first := next((other for other in before if other.values == rdt_class.values), None)
        ):
            yield f"{place}: class {first.name} has the same {described(*rdt_class.values)} already: want other values"


def _problem(item: ErrorDetails) -> str:
    path = ""
    for part in item["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    field, value = path.removeprefix(".") or "the document", item["input"]
    if item["type"] == "missing":
        return f"{field}: required"
    if item["type"] == "extra_forbidden":
        model = RdtClass if field.startswith("classes[") else Classes
        return f"{field}: unknown key: want one of {', '.join(map(to_camel, model.model_fields))}"
    got = "" if item["type"] == "value_error" else f", got {quoted(_short(value))}"
    return f"{field}: {wanted(item)}{got}"


def _short(value: object) -> str:
    """The aliases of a short YAML text can make a list whose whole text has gigabytes."""
    return _SHORT.repr(value) if isinstance(value, list | dict) else str(value)
