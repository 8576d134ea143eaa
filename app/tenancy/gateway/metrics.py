"""Metrics of the gateway, by tenant where the caller is one: its series exist as long as its Tenant object.

Callers that are no tenants share one name. Their number depends on the certificates that are issued, and must not
increase the memory of the gateway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import Counter, Gauge, Histogram

OTHERS = "(others)"
"""The cloud admin, refused certificates, and what a tenant that is gone had under way."""
CODES = ("OK", "CANCELLED", "INTERNAL", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAVAILABLE")
"""The gRPC statuses that alerts distinguish; the series of others begin when they first happen."""
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)

CALLS = Counter("gateway_calls_total", "Calls that ended, streams included", ("grpc_service", "method", "code"))
CALL_DURATION = Histogram(
    "gateway_call_duration_seconds", "Time of a call", ("grpc_service", "method"), buckets=_BUCKETS
)
REFUSED = Counter("gateway_refused_total", "Callers that were refused, by reason", ("grpc_service", "reason"))
THROTTLED = Counter("gateway_throttled_total", "Calls over a tenant's limit", ("tenant", "limit"))
STREAMS = Gauge("gateway_streams", "Streams open now", ("tenant",))
EVENTS = Counter("gateway_workload_events_total", "Events read from workload streams", ("tenant", "kind"))
EVENTS_DROPPED = Counter("gateway_workload_events_dropped_total", "Events that were not taken", ("tenant", "reason"))
WRITES = Counter("gateway_workload_writes_total", "Workloads written", ("tenant", "verb", "outcome"))

_OF_A_TENANT: Mapping[Counter, tuple[tuple[str, ...], ...]] = {
    THROTTLED: (("rate",), ("streams",), ("refused",)),
    EVENTS: (("update",), ("delete",), ("synced",)),
    EVENTS_DROPPED: (("id",), ("size",), ("content",), ("limit",), ("rejected",)),
    WRITES: (
        *(("create", "done"), ("replace", "done"), ("delete", "done"), ("unchanged", "done")),
        *(("replace", "failed"), ("delete", "failed")),
    ),
}
"""The series of each tenant: the values of the labels beside its name."""


def create_series(methods: Mapping[str, Iterable[str]], reasons: Iterable[str]) -> None:
    """Create the series of each service at zero, so that a rate over them is right from the first scrape."""
    reason_names = tuple(reasons)
    for service, names in methods.items():
        for reason in reason_names:
            REFUSED.labels(service, reason)
        for method in names:
            CALL_DURATION.labels(service, method)
            for code in CODES:
                CALLS.labels(service, method, code)
    for values in _OF_A_TENANT[THROTTLED]:
        THROTTLED.labels(OTHERS, *values)
    STREAMS.labels(OTHERS).set(0)


class GatewayMetrics:
    """What a gateway reports; a process has one gateway.

    `tenant` is the tenant's name. Of callers that are no tenants it is `certificate <name>`, as in limits.
    Streams of a tenant may end after it is gone.
    """

    def __init__(self) -> None:
        self._tenants: set[str] = set()
        self._streams: dict[str, int] = {}

    def tenant_came(self, tenant: str) -> None:
        """Create the tenant's series at zero."""
        self._tenants.add(tenant)
        for counter, series in _OF_A_TENANT.items():
            for values in series:
                counter.labels(tenant, *values)
        # A stream may be older than the news of its tenant.
        self._show_streams(tenant)
        self._show_streams(OTHERS)

    def tenant_gone(self, tenant: str) -> None:
        """Forget the tenant's series."""
        self._tenants.discard(tenant)
        for family in (STREAMS, *_OF_A_TENANT):
            family.remove_by_labels({"tenant": tenant})
        self._show_streams(OTHERS)

    def called(self, service: str, method: str, code: str, seconds: float) -> None:
        """A call or a stream has ended; `code` is the gRPC status in capitals (OK, NOT_FOUND …)."""
        CALLS.labels(service, method, code).inc()
        CALL_DURATION.labels(service, method).observe(seconds)

    def refused(self, service: str, reason: str) -> None:
        REFUSED.labels(service, reason).inc()

    def throttled(self, tenant: str, what: str) -> None:
        """RESOURCE_EXHAUSTED: `what` is the limit; "refused" callers were held up before."""
        THROTTLED.labels(self._named(tenant), what).inc()

    def streams(self, tenant: str, count: int) -> None:
        self._streams[tenant] = count
        if not count:
            del self._streams[tenant]
        self._show_streams(self._named(tenant))

    def event(self, tenant: str, kind: str) -> None:
        EVENTS.labels(self._named(tenant), kind).inc()

    def event_dropped(self, tenant: str, reason: str) -> None:
        EVENTS_DROPPED.labels(self._named(tenant), reason).inc()

    def written(self, tenant: str, verb: str, outcome: str) -> None:
        WRITES.labels(self._named(tenant), verb, outcome).inc()

    def _named(self, tenant: str) -> str:
        return tenant if tenant in self._tenants else OTHERS

    def _show_streams(self, shown: str) -> None:
        STREAMS.labels(shown).set(sum(count for name, count in self._streams.items() if self._named(name) == shown))
