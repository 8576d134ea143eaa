"""What the command of a container would do: how long it runs, and with which code it ends. Pure.

Understood are `sleep`, `true`, `false` and `echo`, also with a path, and in `sh -c` or `bash -c` sequences of them with
`;`, `&&` and `||`, and `exit`. Whatever else a container has to run is not known.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from app.wire import JSON

_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(
    r"""\s*[+]?(?:(?P<hex>0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)
    |inf(?:inity)?)(?P<unit>[smhd]?)""",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
"""What strtod of C reads, with a unit."""
_LONGEST = 2.0**31
"""Seconds; a run that takes longer is one without an end, for no clock of ours reaches so far."""
_OPERATOR = re.compile(r"[;&|\n()<>]+")
_SKIPS = {"&&": False, "||": True}
"""Operators, with whether the command after them is skipped where the one before has succeeded."""
_USAGE = 1
"""The exit code of `sleep` with what is no time."""


@dataclass(frozen=True, slots=True)
class Run:
    """A command that is known: it ends by itself after `seconds` and with `code`, or never (infinity)."""

    seconds: float
    code: int

    @property
    def ends(self) -> bool:
        return isfinite(self.seconds)


def run_of(container: JSON) -> Run | None:
    """What the container does; None where that is not known: another command, or an image's own.

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
        if ends or not run.ends:
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
    """As coreutils have it: the sum of all times, and a fault of any of them before the first is slept."""
    if any(set(time) & set("$`") for time in times):  # of a variable
        return None
    if times[:1] in (["--help"], ["--version"]):
        return Run(0, 0)
    seconds = [_seconds(time) for time in times if time != "--"]
    read = [length for length in seconds if length is not None]
    if not read or len(read) < len(seconds):
        return Run(0, _USAGE)
    return Run(length if (length := sum(read)) <= _LONGEST else inf, 0)


def _seconds(text: str) -> float | None:
    """A time as `sleep` reads it, with its unit in lower case; None of what it refuses."""
    duration = _DURATION.fullmatch(text)
    if duration is None or duration["unit"] not in _UNITS:
        return None
    if duration["hex"]:
        try:
            length = float.fromhex(duration["hex"])
        except OverflowError:
            length = inf
    else:
        length = float(duration["number"] or inf)
    return length * _UNITS[duration["unit"]]


def _name(word: str) -> str:
    """The command without the directory that it is in."""
    return word.rpartition("/")[2]
