"""Metrics of the agent's streams and calls to the gateway."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

STREAMS = ("workloads", "rules", "resources")
EVENTS = ("update", "delete", "synced")
METHODS = ("List", "Update", "Delete")
CODES = ("ok", "cancelled", "deadline_exceeded", "failed_precondition", "permission_denied", "unavailable")
"""Those that alerts distinguish or that happen every day; the series of others begin when they first happen."""
REASONS = ("eof", "renewed", "internal", *(code for code in CODES if code != "ok"), "resource_exhausted")

STREAM_UP = Gauge("agent_stream_up", "1 while the stream carries current state", ("stream",))
STREAMS_ENDED = Counter("agent_streams_ended_total", "Streams that ended, by reason", ("stream", "reason"))
SENT = Counter("agent_workload_events_total", "Messages about workloads that were sent", ("kind",))
SKIPPED = Counter("agent_workloads_skipped_total", "Pods that cannot be sent to the gateway", ("reason",))
CALLS = Counter("agent_calls_total", "Calls that ended", ("method", "code"))


def create_series() -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for stream in STREAMS:
        STREAM_UP.labels(stream).set(0)
        for reason in REASONS:
            STREAMS_ENDED.labels(stream, reason)
    for kind in EVENTS:
        SENT.labels(kind)
    SKIPPED.labels("too_large")
    for method in METHODS:
        for code in CODES:
            CALLS.labels(method, code)
