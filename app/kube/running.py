"""Caches and controllers as tasks of a group, which ends all of them where one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from app.kube.controller import Controller
from app.kube.reflector import Reflector


def start(
    group: asyncio.TaskGroup, reflectors: Iterable[Reflector], controllers: Iterable[Controller[Any]] = ()
) -> None:
    """Make each of them a task of the group."""
    for reflector in reflectors:
        group.create_task(reflector.run(), name=f"watch-{reflector.resource.plural}")
    for controller in controllers:
        group.create_task(controller.run(), name=controller.name)


def problems_of(reflectors: Iterable[Reflector]) -> list[str]:
    """What readiness waits for, a line for each cache that is not known to show what the API server holds."""
    return [reflector.problem for reflector in reflectors if reflector.problem]
