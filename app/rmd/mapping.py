"""The ConfigMap with the RDT classes of the container runtime. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from reprlib import Repr

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from app.kube.configuration import yaml_in
from app.rmd.classes import Classes, RdtClass, described
from app.text import quoted, wanted
from app.wire import JSON

KEY = "classes.yaml"
_SHORT = Repr()
_SHORT.maxlevel = 3


def parse_classes(config_map: JSON) -> Classes:
    """The classes in a ConfigMap. Raises ValueError with the path of all that is wrong, or can never be chosen."""
    text = (config_map.get("data") or {}).get(KEY)
    if text is None:
        raise ValueError(f"data[{KEY}]: required: the classes of the container runtime, as YAML")
    said = yaml_in(text, KEY)
    try:
        found = Classes.model_validate({} if said is None else said)
    except ValidationError as error:
        problems = [_problem(item) for item in error.errors(include_url=False)]
        raise ValueError("; ".join(f"data[{KEY}]: {problem}" for problem in problems)) from error
    if unused := list(_never_chosen(found.classes)):
        raise ValueError("; ".join(f"data[{KEY}]: {problem}" for problem in unused))
    return found


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
