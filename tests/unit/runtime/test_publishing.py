"""One publisher's fault never stops the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from prometheus_client import Gauge

from app import metrics
from app.appwrappers import metrics as of_app_wrappers
from app.appwrappers.controller.stored import AppWrapper, stored_app_wrapper
from app.kube.store import Store

LATER = Gauge("tested_after_a_fault", "Set by a publisher that comes after one that raises")


@pytest.fixture
def publishers() -> Iterator[list[str]]:
    before, called = list(metrics._publishers), list[str]()

    def broken() -> None:
        called.append("broken")
        raise TypeError("a wrong status")

    metrics.published(broken)
    metrics.published(lambda: LATER.set(len(called)))
    yield called
    metrics._publishers[:] = before


def test_the_others_are_published_and_the_fault_is_counted_and_logged_once(publishers: list[str]) -> None:
    faults = metrics.HANDLING_FAULTS.labels("metrics")._value
    before = faults.get()
    with structlog.testing.capture_logs() as lines:
        body, _ = metrics.exposition()
        metrics.exposition()
    assert b"tested_after_a_fault 1.0" in body
    assert faults.get() == before + 2
    assert [line["event"] for line in lines] == ["metrics not published"]


@pytest.mark.parametrize(
    "status",
    ["text", 1, [1], {"phase": ["Running"]}, {"phase": "Failed", "conditions": "x"}, {"conditions": [{"type": []}]},
     {"componentStatus": 7}, {"componentStatus": [{"conditions": 7}]},
     {"phase": "Resetting", "conditions": [{"type": "DeletingResources", "status": "True", "lastTransitionTime": 5}]}],
)  # fmt: skip
def test_app_wrappers_of_any_status_are_counted(status: object) -> None:
    store: Store[AppWrapper] = Store(stored_app_wrapper)
    metadata = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    store.upsert({"metadata": metadata, "spec": {}, "status": status})
    with of_app_wrappers.kept(store):
        of_app_wrappers._publish()
    [wrapper] = store.values()
    assert wrapper.marked in (True, False)
    assert isinstance(wrapper.phase, str)
