"""The JSONPath subset that additionalPrinterColumns use: members, quoted members, indexes, `*` and one equality filter.

Pure. A path that cannot be read finds nothing, as a missing field does; `check_path` tells, so that a CRD's
writer is warned.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""\.(?P<member>(?:\\.|[^.\[\\])+)
    |\['(?P<quoted>[^']*)'\]
    |\["(?P<double>[^"]*)"\]
    |\[(?P<index>-?\d+|\*)\]
    |\[\?\(\s*@\.(?P<field>[^=\s]+)\s*==\s*['"](?P<value>[^'"]*)['"]\s*\)\]""",
    re.VERBOSE,
)


@lru_cache(maxsize=512)
def _parse(path: str) -> tuple[dict[str, str], ...] | None:
    path = path.strip("{}")
    steps: list[dict[str, str]] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            return None
        steps.append({name: text for name, text in match.groupdict().items() if text is not None})
        at = match.end()
    return tuple(steps)


def check_path(path: str) -> bool:
    """Whether `path` is one that `find` can follow."""
    return path.startswith((".", "[", "{")) and _parse(path) is not None


def find(value: Any, path: str) -> list[Any]:
    """Every value at `path`, without nulls; empty where nothing is there."""
    steps = _parse(path)
    if steps is None:
        return []
    found = [value]
    for step in steps:
        found = [inner for outer in found for inner in _follow(outer, step)]
    return [value for value in found if value is not None]


def _follow(value: Any, step: dict[str, str]) -> list[Any]:
    if "field" in step:
        elements = value if isinstance(value, list) else []
        return [element for element in elements if find(element, f".{step['field']}") == [step["value"]]]
    if "index" in step:
        return _at_index(value, step["index"])
    name = step.get("member") or step.get("quoted") or step.get("double") or ""
    if name == "*":
        return _at_index(value, "*")
    name = name.replace("\\", "")
    return [value[name]] if isinstance(value, dict) and name in value else []


def _at_index(value: Any, index: str) -> list[Any]:
    if index == "*":
        return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
    at = int(index)
    return [value[at]] if isinstance(value, list) and -len(value) <= at < len(value) else []
