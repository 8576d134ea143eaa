"""What the command of a container would do: how long it runs, and with which code it ends. Pure.

Understood are `sleep`, `true`, `false` and `echo`, also with a path, and in `sh -c` or `bash -c` sequences of them with
`;`, `&&` and `||`, and `exit`. Whatever else a container has to run runs on.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.wire import JSON

_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)")
_ENDLESS = frozenset({"inf", "infinity"})
_OPERATOR = re.compile(r"[;&|\n()<>]+")
_SKIPS = {"&&": False, "||": True}
"""Operators, with whether the command after them is skipped where the one before has succeeded."""
_USAGE = 1
"""The exit code of `sleep` with what is no time."""


@dataclass(frozen=True, slots=True)
class Run:
    """A command that ends by itself, after `seconds` and with `code`."""

    seconds: float
    code: int


def run_of(container: JSON) -> Run | None:
    """What the container does; None where it runs on: an unknown command, an image's own, `sleep inf`.

    Arguments follow the command. Without a command they are taken for one, as images without an entry point do.
    """
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    if len(words) >= 3 and _name(words[0]) in _SHELLS and words[1] in ("-c", "-lc"):
        return _script(words[2])
    return _simple(words)


def _script(text: str) -> Run | None:
    """The run of a shell that is given this text; None where it comes to what is not understood."""
    seconds, code = 0.0, 0
    for joint, words in _steps(text):
        if joint in _SKIPS and _SKIPS[joint] == (code == 0):
            continue
        ends = words[:1] == ["exit"]
        run = _exit(words, code) if ends else _simple(words)
        if run is None:
            return None
        seconds, code = seconds + run.seconds, run.code
        if ends:
            break
    return Run(seconds, code)


def _steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a script, each with the operator before it; what cannot be read comes as no words."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|\n()<>")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        tokens = list(lexer)
    except ValueError:  # a quotation without an end
        tokens = ["("]
    joint, words = ";", list[str]()
    for token in [*tokens, ";"]:
        sign = token.strip("\n")
        if not _OPERATOR.fullmatch(token):
            words.append(token)
        elif sign.strip(";\n") and sign not in _SKIPS:
            yield joint, []
        elif words:
            yield joint, words
            joint, words = sign if sign in _SKIPS else ";", []


def _exit(words: Sequence[str], last: int) -> Run | None:
    if len(words) == 1:
        return Run(0, last)
    return Run(0, int(words[1]) % 256) if words[1].isdecimal() else None


def _simple(words: Sequence[str]) -> Run | None:
    """The run of one command; None where it does not end, or is not known."""
    match _name(words[0]) if words else "":
        case "true" | "echo":
            return Run(0, 0)
        case "false":
            return Run(0, 1)
        case "sleep":
            return _sleep(words[1:])
    return None


def _sleep(times: Sequence[str]) -> Run | None:
    if _ENDLESS & set(times) or any(set(one) & set("$`") for one in times):  # also of a variable
        return None
    found = [one for one in map(_DURATION.fullmatch, times) if one]
    if not found or len(found) < len(times):
        return Run(0, _USAGE)
    return Run(sum(float(one[1]) * _UNITS[one[2]] for one in found), 0)


def _name(word: str) -> str:
    """The command without the directory that it is in."""
    return word.rpartition("/")[2]
