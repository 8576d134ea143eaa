"""Reads the flags of Berth off the words of a container, as Berth itself reads them: the last one counts. Pure."""

from __future__ import annotations


def flag(arguments: tuple[str, ...], name: str, *, switch: bool = False) -> str | None:
    """The last value of a flag, with one dash or two; "true" or "false" for a switch, None where it is not given."""
    bare = name.lstrip("-")
    value = None
    for index, argument in enumerate(arguments):
        key, equals, given = argument.partition("=")
        key = key.lstrip("-") if key.startswith("-") else ""
        if switch and key == f"no-{bare}":
            value = "false"
        elif key == bare and equals:
            value = given
        elif key == bare:
            value = "true" if switch else next(iter(arguments[index + 1 : index + 2]), None)
    return value
