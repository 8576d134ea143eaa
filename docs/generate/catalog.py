"""Lists all metrics of Berth, with their labels and the roles that set them.

Reads the modules that the registry names and counts nothing. For the reference and for tests: a role exposes the names
of all metrics that its process happens to import, but only the series that it sets itself.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

from app.registry import BY_NAME, WINGS

_ROLES_OF_MODULE: dict[str, tuple[str, ...]] = {
    "app.metrics": tuple(BY_NAME),
    "app.kube.metrics": tuple(BY_NAME),
    "app.admission.metrics": ("webhook",),
    "app.serving.metrics": tuple(BY_NAME),
    **{module: roles for wing in WINGS for module, roles in wing.metrics.items()},
}
_RECONCILING = ("controller", "agent", "certificates", "rmd-node", "claims-node")
_ROLES_OF_METRIC: dict[str, tuple[str, ...]] = {
    "cert_not_after_seconds": ("webhook", "gateway", "agent"),
    "leader": ("controller", "agent"),
    "events_total": ("webhook", *_RECONCILING),
    "reconcile_total": _RECONCILING,
    "reconcile_duration_seconds": _RECONCILING,
    "queue_depth": _RECONCILING,
}
"""Where a metric has other roles than its module."""


class Described(NamedTuple):
    """A metric by the name under which Prometheus finds it; of a histogram, the one before `_bucket`."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    roles: tuple[str, ...]


WORKER_RESTARTS = Described(
    "worker_restarts_total", "counter", (), "Worker processes that ended and were replaced (--workers)", ("webhook",)
)
"""Counted by the parent of workers, in a registry of its own: `app.runtime.workers`."""


def catalog() -> list[Described]:
    """All metrics, sorted."""
    found = [WORKER_RESTARTS]
    for module, roles_of_module in _ROLES_OF_MODULE.items():
        for metric in _metrics_of(vars(importlib.import_module(module))):
            [described] = metric.describe()
            name = f"{described.name}_total" if described.type == "counter" else described.name
            roles = _ROLES_OF_METRIC.get(name) or roles_of_module
            # The client library has no public attribute for the names of labels.
            labels = tuple(metric._labelnames)  # noqa: SLF001
            found.append(Described(name, described.type, labels, described.documentation, roles))
    return sorted(set(found))


def _metrics_of(members: dict[str, object]) -> Iterator[MetricWrapperBase]:
    """The metrics that a module has, and those that a cached function of it makes when there is a first value."""
    for value in members.values():
        if isinstance(value, MetricWrapperBase):
            yield value
        elif isinstance(value, functools._lru_cache_wrapper) and not value.cache_info().currsize:  # noqa: SLF001
            made = value()
            yield made
            # It must not be there at zero.
            REGISTRY.unregister(made)
            value.cache_clear()
        elif isinstance(value, functools._lru_cache_wrapper):  # noqa: SLF001
            yield value()
