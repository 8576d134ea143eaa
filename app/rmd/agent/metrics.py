"""Metrics of the node agent."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge

LISTS = Counter("rmd_node_lists_total", "Lists of what Pods were given, asked of kubelet, by outcome", ("outcome",))
ANNOUNCED = Gauge(
    "rmd_node_cache_ways", "Cache ways announced to kubelet, by level 3 cache and health", ("cache", "health")
)
PROBLEMS = Counter("rmd_node_pod_problems_total", "Warning Events on Pods, by reason", ("reason",))
_caches: set[str] = set()


def create_series(problems: Iterable[str]) -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape. `problems` are reasons."""
    for outcome in ("answered", "failed"):
        LISTS.labels(outcome)
    for reason in problems:
        PROBLEMS.labels(reason)


def announced(ways: dict[str, int], *, healthy: bool) -> None:
    """The ways by cache; all of them have the same health."""
    for cache in _caches - ways.keys():
        for health in ("Healthy", "Unhealthy"):
            ANNOUNCED.remove(cache, health)
    for cache, count in ways.items():
        ANNOUNCED.labels(cache, "Healthy").set(count if healthy else 0)
        ANNOUNCED.labels(cache, "Unhealthy").set(0 if healthy else count)
    _caches.clear()
    _caches.update(ways)
