"""Rights that are missing, in few words: the kinds of one verb and one place are named together. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from app.doctor.model import NOT_ALLOWED

_RIGHT = re.compile(r"(?P<verb>\S+) (?P<kind>\S+) (?P<where>in .+)")
_FEW = 3
"""Rights for which each has a command of its own."""


def missing_rights(texts: Iterable[str]) -> str:
    """`list nodes, pods in the whole cluster; get pods in namespace a`, of messages of `unchecked` that name a right.

    A kind has its group where two have the same name.
    """
    rights = list(dict.fromkeys(text.removeprefix(NOT_ALLOWED) for text in texts))
    found = {right: match for right in rights if (match := _RIGHT.fullmatch(right))}
    plurals = Counter(kind.partition(".")[0] for kind in {match["kind"] for match in found.values()})
    places: dict[tuple[str, str], list[str]] = {}
    for match in found.values():
        plural = match["kind"].partition(".")[0]
        kinds = places.setdefault((match["verb"], match["where"]), [])
        kinds.append(plural if plurals[plural] == 1 else match["kind"])
    grouped = [f"{verb} {', '.join(kinds)} {where}" for (verb, where), kinds in places.items()]
    return "; ".join([*grouped, *(right for right in rights if right not in found)])


def commands_of(commands: Iterable[str]) -> str:
    """The commands that ask for rights, one a line; of many one that lists all rights of the user."""
    lines = list(dict.fromkeys(filter(None, commands)))
    if len(lines) <= _FEW:
        return "\n".join(lines)
    scopes = {line.rpartition(" ")[2] for line in lines if " -n " in line}
    where = f" -n {min(scopes)}" if len(scopes) == 1 and all(" -n " in line for line in lines) else ""
    return f"kubectl auth can-i --list{where}"
