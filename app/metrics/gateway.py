"""What is counted of the gateway, by tenant where that says who it was."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)

CALLS = Counter("gateway_calls_total", "Calls that ended, streams included", ("service", "method", "code"))
CALL_DURATION = Histogram("gateway_call_duration_seconds", "Time of a call", ("service", "method"), buckets=_BUCKETS)
REFUSED = Counter("gateway_refused_total", "Callers that were refused, by reason", ("service", "reason"))
THROTTLED = Counter("gateway_throttled_total", "Calls over a tenant's limit", ("tenant", "limit"))
STREAMS = Gauge("gateway_streams", "Streams open now", ("tenant",))
EVENTS = Counter("gateway_workload_events_total", "Events read from workload streams", ("tenant", "kind"))
EVENTS_DROPPED = Counter("gateway_workload_events_dropped_total", "Events that were not taken", ("tenant", "reason"))
WRITES = Counter("gateway_workload_writes_total", "Workloads written", ("tenant", "verb", "outcome"))


def create_series(services: Iterable[str], reasons: Iterable[str]) -> None:
    """Create what counts refusals at zero, so that a rate over it is right from the first scrape.

    The names of tenants are not known yet: their series begin with what they do.
    """
    known = tuple(reasons)
    for service in services:
        for reason in known:
            REFUSED.labels(service, reason)


class GatewayMetrics:
    """Told by the gateway of `app.tenancy`."""

    def called(self, service: str, method: str, code: str, seconds: float) -> None:
        CALLS.labels(service, method, code).inc()
        CALL_DURATION.labels(service, method).observe(seconds)

    def refused(self, service: str, reason: str) -> None:
        REFUSED.labels(service, reason).inc()

    def throttled(self, tenant: str, what: str) -> None:
        THROTTLED.labels(tenant, what).inc()

    def streams(self, tenant: str, count: int) -> None:
        STREAMS.labels(tenant).set(count)

    def event(self, tenant: str, kind: str) -> None:
        EVENTS.labels(tenant, kind).inc()

    def event_dropped(self, tenant: str, reason: str) -> None:
        EVENTS_DROPPED.labels(tenant, reason).inc()

    def written(self, tenant: str, verb: str, outcome: str) -> None:
        WRITES.labels(tenant, verb, outcome).inc()
