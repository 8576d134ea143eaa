"""Metrics of the Kubernetes Events that a role writes."""

from __future__ import annotations

from prometheus_client import Counter

COMPONENTS = ("webhook", "controller", "agent")
OUTCOMES = ("recorded", "aggregated", "dropped", "failed")

EVENTS = Counter(
    "events_total",
    "Events by outcome: recorded anew, aggregated into one that is there, dropped unwritten, failed at the API server",
    ("component", "outcome"),
)


def create_series(component: str) -> None:
    """Create the series at zero, so that a rate over them is right from the first scrape."""
    for outcome in OUTCOMES:
        EVENTS.labels(component, outcome)


class EventMetrics:
    """Told by the recorder of `app.kube`; `component` is the role that writes. Creates its series."""

    def __init__(self, component: str) -> None:
        create_series(component)
        self._outcomes = {outcome: EVENTS.labels(component, outcome) for outcome in OUTCOMES}

    def recorded(self) -> None:
        """An Event was created."""
        self._outcomes["recorded"].inc()

    def aggregated(self) -> None:
        """An Event that was there already was counted up."""
        self._outcomes["aggregated"].inc()

    def dropped(self) -> None:
        """An Event was not written: too many of its object, or a full queue."""
        self._outcomes["dropped"].inc()

    def failed(self) -> None:
        """The API server did not take an Event."""
        self._outcomes["failed"].inc()
