"""Descriptors of the roles, as data. The modules that a descriptor names are imported when they are used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Role:
    """A process of Berth that runs until it is stopped.

    `command` are the words that start it, `settings` and `run` are references (`"module:name"`): the class of its
    settings, and the function that runs a role with such settings and returns the exit status. `ignored` are flags of
    a peer that are accepted and have no effect.
    """

    name: str
    command: tuple[str, ...]
    settings: str
    run: str
    summary: str
    examples: tuple[str, ...]
    notes: str = ""
    ignored: tuple[str, ...] = ()


def resolve(reference: str) -> Callable[..., Any]:
    """The class or function that a reference names."""
    module, _, name = reference.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
