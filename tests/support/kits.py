"""Kits without an API server, and which keys the changes of their caches wake."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, cast

from app.kube.client import KubeClient
from app.kube.controller import Result
from app.kube.kit import Kit, Wakes
from app.kube.store import Store


def offline_kit() -> Kit:
    """A kit whose caches the test fills. It is never run."""
    return Kit(cast("KubeClient", None))


def waking(
    kit: Kit, wakes: Mapping[Store[Any], Wakes], woken: Callable[[Any], object], *, name: str = "waking"
) -> None:
    """Have `woken` called with each key; nothing is reconciled."""
    controller = kit.reconcile(name, _never, keys=tuple, wakes=wakes)
    controller.enqueue = woken  # type: ignore[method-assign, assignment]


async def _never(key: Hashable) -> Result:
    raise AssertionError(key)
