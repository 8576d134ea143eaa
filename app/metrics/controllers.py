"""Metrics of reconcilers and of leader election."""

from __future__ import annotations

from collections.abc import Sized

from prometheus_client import Counter, Gauge, Histogram

from app.metrics.publishing import published

OUTCOMES = ("done", "requeue", "transient", "terminal", "internal")
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

RECONCILES = Counter("reconcile_total", "Keys reconciled, by controller and result", ("controller", "result"))
RECONCILE_DURATION = Histogram("reconcile_duration_seconds", "Time of one reconcile", ("controller",), buckets=_BUCKETS)
QUEUE_DEPTH = Gauge("queue_depth", "Keys that wait for a worker", ("controller",), multiprocess_mode="livesum")
LEADER = Gauge("leader", "1 while this process holds the lease", ("lease",), multiprocess_mode="livemax")

_queues: dict[str, list[Sized]] = {}
"""The queues of the controllers that run in this process, by the name of the controller."""


def create_series(controllers: tuple[str, ...], *, lease: str) -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape; lease "": there is none."""
    if lease:
        LEADER.labels(lease).set(0)
    for controller in controllers:
        RECONCILE_DURATION.labels(controller)
        QUEUE_DEPTH.labels(controller).set(0)
        for outcome in OUTCOMES:
            RECONCILES.labels(controller, outcome)


class ControllerMetrics:
    """Told by the controllers of `app.kube`."""

    def began(self, controller: str, queue: Sized) -> None:
        _queues.setdefault(controller, []).append(queue)

    def ended(self, controller: str, queue: Sized) -> None:
        _queues[controller] = [kept for kept in _queues.get(controller, ()) if kept is not queue]
        if not _queues[controller]:
            del _queues[controller]
            QUEUE_DEPTH.labels(controller).set(0)

    def reconciled(self, controller: str, outcome: str, seconds: float) -> None:
        RECONCILES.labels(controller, outcome).inc()
        RECONCILE_DURATION.labels(controller).observe(seconds)


@published
def _publish() -> None:
    for controller, queues in _queues.items():
        QUEUE_DEPTH.labels(controller).set(sum(map(len, queues)))
