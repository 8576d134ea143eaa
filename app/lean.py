"""Imports of packages without what they import for uses that Berth does not have. It saves memory and time."""

from __future__ import annotations

import contextlib
import ssl
import sys
from collections.abc import Iterator
from importlib.util import find_spec, module_from_spec
from typing import Any


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """Import what the block imports as where the package of that name is not installed.

    For packages that another one uses where it finds them. It changes nothing where the package is imported already.
    """
    hidden = name not in sys.modules
    if hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # as the import system wants it
    try:
        yield
    finally:
        if hidden:
            del sys.modules[name]


@contextlib.contextmanager
def unexecuted(*names: str) -> Iterator[None]:
    """Import modules of these packages without the `__init__` of the packages; one comes after the one that holds it.

    It changes nothing of a package that is imported already. An import of the package after the block
    runs it whole, with the same modules in it.
    """
    made = []
    try:
        for name in names:
            if name not in sys.modules and (spec := find_spec(name)) is not None:
                sys.modules[name] = module_from_spec(spec)
                made.append(name)
        yield
    finally:
        for name in made:
            del sys.modules[name]


@contextlib.contextmanager
def without_authorities() -> Iterator[None]:
    """Let contexts for TLS that are made in the block trust none of the system's CAs: they refuse every server.

    For those that a library makes as it is imported, and that are never used.
    """
    context: Any = ssl.SSLContext
    context.set_default_verify_paths = lambda _context: None  # hides the method of the class below
    try:
        yield
    finally:
        del context.set_default_verify_paths


@contextlib.contextmanager
def deferred_models() -> Iterator[None]:
    """Let pydantic build what validates the models of the block when one of them is first used, if one is."""
    from pydantic import BaseModel  # noqa: PLC0415  not every user of this module has it

    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]
