"""What is counted of reconcilers and of leadership."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

OUTCOMES = ("done", "requeue", "transient", "terminal", "internal")
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

RECONCILES = Counter("reconcile_total", "Keys reconciled, by controller and result", ("controller", "result"))
RECONCILE_DURATION = Histogram("reconcile_duration_seconds", "Time of one reconcile", ("controller",), buckets=_BUCKETS)
QUEUE_DEPTH = Gauge("queue_depth", "Keys that wait for a worker", ("controller",))
LEADER = Gauge("leader", "1 while this process holds the lease", ("lease",))


def create_series(controllers: tuple[str, ...], *, lease: str) -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    LEADER.labels(lease).set(0)
    for controller in controllers:
        RECONCILE_DURATION.labels(controller)
        QUEUE_DEPTH.labels(controller).set(0)
        for outcome in OUTCOMES:
            RECONCILES.labels(controller, outcome)


class ControllerMetrics:
    """Told by the controllers of `app.kube`."""

    def reconciled(self, controller: str, outcome: str, seconds: float) -> None:
        RECONCILES.labels(controller, outcome).inc()
        RECONCILE_DURATION.labels(controller).observe(seconds)

    def depth(self, controller: str, waiting: int) -> None:
        QUEUE_DEPTH.labels(controller).set(waiting)
