"""Metrics of RMD: which daemons answer, what they hold for RmdWorkloads, and what they refuse."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from app.rmd.daemon.wire import REASONS, reason_of

ANSWERS = Gauge("rmd_daemon_up", "1 if the daemon of a node answered when it was last asked", ("rmd_node",))
RESERVATIONS = Gauge(
    "rmd_reservations",
    "RmdWorkloads on a node: held by its daemon, or missing there; foreign ones are of no RmdWorkload",
    ("rmd_node", "state"),
)
FREE = Gauge(
    "rmd_cache_ways_free", "Ways of the guaranteed pool that are not reserved, by level 3 cache", ("rmd_node", "cache")
)
REFUSALS = Counter("rmd_refusals_total", "Requests that daemons refused, by reason", ("reason",))

STATES = ("held", "missing", "foreign")
_caches: dict[str, frozenset[str]] = {}
"""The caches of each node that has series."""


def create_series() -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for reason in REASONS:
        REFUSALS.labels(reason)


def refused(text: str) -> None:
    """A daemon refused a request and said this."""
    REFUSALS.labels(reason_of(text)).inc()


def answered(node: str, *, held: int, missing: int, foreign: int) -> None:
    _caches.setdefault(node, frozenset())
    ANSWERS.labels(node).set(1)
    for state, count in zip(STATES, (held, missing, foreign), strict=True):
        RESERVATIONS.labels(node, state).set(count)


def silent(node: str, *, missing: int) -> None:
    """The daemon did not answer: what it holds is not known."""
    forget(node)
    _caches[node] = frozenset()
    ANSWERS.labels(node).set(0)
    RESERVATIONS.labels(node, "missing").set(missing)


def free(node: str, ways: dict[str, int]) -> None:
    """The free ways of the guaranteed pool, by cache."""
    for cache in _caches.get(node, frozenset()) - ways.keys():
        FREE.remove(node, cache)
    for cache, count in ways.items():
        FREE.labels(node, cache).set(count)
    _caches[node] = frozenset(ways)


def none_free(node: str) -> None:
    """No class of service is left: no way can be reserved."""
    for cache in _caches.get(node, ()):
        FREE.labels(node, cache).set(0)


def forget(node: str) -> None:
    """Nothing is asked of the node any more."""
    caches = _caches.pop(node, None)
    if caches is None:
        return
    for cache in caches:
        FREE.remove(node, cache)
    for gauge in (ANSWERS, RESERVATIONS):
        gauge.remove_by_labels({"rmd_node": node})


def forget_all() -> None:
    """The term of leadership has ended: another replica reports."""
    for node in tuple(_caches):
        forget(node)
