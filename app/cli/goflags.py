"""Accepts flags as Go's `flag` package does, so that an existing Deployment keeps its arguments.

`-port=8443`, `--port=8443` and `--port 8443` are one; `-insecure=false` turns a switch off. That holds for the
commands that stand in for another program; elsewhere one dash begins short options, as kubectl has them (`-ojson`).
Nothing is decided here: the result is what Typer parses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.errors import UsageError

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")
_COMMANDS = ("webhook", "certs", "certificates")


def normalize(arguments: Sequence[str], *, switches: Iterable[str]) -> list[str]:
    """The arguments with two dashes and without `=true`; `switches` are the names that take no value.

    Raises UsageError for a switch with a value that Go would not read as a boolean.
    """
    names = frozenset(switches)
    one_dash = next((argument for argument in arguments if not argument.startswith("-")), "") in _COMMANDS
    out: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == "--":
            return out + list(arguments[position:])
        name, equals, value = argument.lstrip("-").partition("=")
        dashes = len(argument) - len(argument.lstrip("-"))
        if dashes not in (1, 2) or not name or (dashes == 1 and not one_dash and len(name) > 1):
            out.append(argument)
        elif dashes == 1 and len(name) == 1:
            out += [f"-{name}", value] if equals else [argument]
        else:
            out.append(_long(name, equals, value, switch=name in names))
    return out


def _long(name: str, equals: str, value: str, *, switch: bool) -> str:
    if not switch or not equals:
        return f"--{name}{equals}{value}"
    if value in _TRUE:
        return f"--{name}"
    if value in _FALSE:
        return f"--no-{name}"
    raise UsageError(f"--{name}: want true or false, got {value!r}")
