"""One publisher's fault never stops the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import structlog
from prometheus_client import Gauge

from app import metrics
from app.appwrappers import metrics as of_app_wrappers
from app.appwrappers.controller.stored import AppWrapper, stored_app_wrapper
from app.kube.store import Store
from tests.support.counting import value

LATER = Gauge("tested_after_a_fault", "Set by a publisher that comes after one that raises")


_broken = threading.Event()


@metrics.published
def _breaks() -> None:
    if _broken.is_set():
        raise TypeError("a wrong status")


@metrics.published
def _later() -> None:
    LATER.set(_broken.is_set())


@pytest.fixture
def _with_a_fault() -> Iterator[None]:
    _broken.set()
    yield
    _broken.clear()


@pytest.mark.usefixtures("_with_a_fault")
def test_the_others_are_published_and_the_fault_is_counted_and_logged_once() -> None:
    faults = metrics.HANDLING_FAULTS.labels("metrics")
    before = value(faults)
    with structlog.testing.capture_logs() as lines:
        body, _ = metrics.exposition()
        metrics.exposition()
    assert b"tested_after_a_fault 1.0" in body
    assert value(faults) == before + 2
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
    faults = metrics.HANDLING_FAULTS.labels("metrics")
    before = value(faults)
    with of_app_wrappers.kept(store):
        metrics.publish()
    assert value(faults) == before
    [wrapper] = store.values()
    assert wrapper.marked in (True, False)
    assert isinstance(wrapper.phase, str)
