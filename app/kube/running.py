"""Caches, controllers and loops as tasks of a group, each behind the wall that keeps objects from ending it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from app.kube.controller import Controller
from app.kube.reflector import Reflector
from app.kube.turns import requests_under
from app.kube.walls import standing


def start(
    group: asyncio.TaskGroup, reflectors: Iterable[Reflector], controllers: Iterable[Controller[Any]] = ()
) -> None:
    """Make each of them a task of the group. A reflector that caches of others are kept by too is started once."""
    for reflector in reflectors:
        if reflector.started:
            continue
        reflector.started = True
        stand(group, f"watch-{reflector.resource.plural}", reflector.run)
    for controller in controllers:
        # A controller runs once. What handles keys in it are tasks of its own, each behind the wall.
        group.create_task(controller.run(), name=controller.name)


def stand(group: asyncio.TaskGroup, name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """Make a task of the group that goes on, after a pause, where `work` raises. It is counted under its name.

    A reconcile worker may call it. Its requests are for all namespaces, and take no turns with those of one.
    """
    with requests_under(None, ""):
        return group.create_task(standing(name, work), name=name)


def problems_of(reflectors: Iterable[Reflector]) -> list[str]:
    """What readiness waits for, a line for each cache that is not known to show what the API server holds."""
    return [reflector.problem for reflector in reflectors if reflector.problem]
