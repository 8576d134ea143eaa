"""What is reported of a review: the log line says where a bug is, and never what the object was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client import REGISTRY

from app.admission.endpoint import Outcome
from app.admission.review import Decision, Request
from app.metrics import admission, watches
from app.runtime.observing import ReviewObserver


@pytest.fixture
def observer() -> ReviewObserver:
    admission.create_series(("observed",))
    watches.create_series(("Thing",))
    return ReviewObserver(("observed",))


def outcome(**values: object) -> Outcome:
    decision = Decision(allowed=False, reason="InternalError", message="m", code=500)
    known: dict[str, object] = {"webhook": "observed", "status": 500, "decision": decision, "seconds": 0.01}
    return Outcome(**(known | values))  # type: ignore[arg-type]  # a dictionary of arguments


@pytest.fixture
def report(observer, capfd):
    """Reports one outcome and returns the line that was written of it."""

    def write(told: Outcome) -> tuple[str, dict[str, Any]]:
        observer.started("observed")
        observer.finished(told)
        observer.flush()
        (line,) = capfd.readouterr().err.splitlines()
        return line, json.loads(line)

    return write


async def test_a_bug_is_logged_with_its_place_and_without_its_text(report) -> None:
    try:
        {}["hunter2"]
    except KeyError as error:
        line, event = report(outcome(request=Request(uid="u"), error=error))
    assert (event["level"], event["error"], event["uid"]) == ("error", "KeyError", "u")
    assert any("test_observing.py" in frame for frame in event["traceback"])
    assert "hunter2" not in line


def test_ages_of_caches_end_with_the_caches() -> None:
    told = watches.AgingWatchMetrics()
    told.objects("Aged", 3)
    age = REGISTRY.get_sample_value("cache_age_seconds", {"kind": "Aged"})
    assert age is not None
    assert (REGISTRY.get_sample_value("cache_age_seconds", {"kind": "Aged"}) or 0) > age
    told.forget()
    assert REGISTRY.get_sample_value("cache_age_seconds", {"kind": "Aged"}) is None


async def test_long_names_are_cut_in_the_log(report) -> None:
    line, _ = report(outcome(request=Request(uid="u" * 9999, name="n" * 9999, namespace="s" * 9999)))
    assert len(line) < 2000


async def test_what_was_no_review_is_counted_as_an_error_without_operation(report) -> None:
    labels = {"webhook": "observed", "operation": "", "decision": "error"}
    admission.create_series(("observed",))
    before = REGISTRY.get_sample_value("admission_requests_total", labels)
    assert before is not None, "created at zero"
    _, event = report(outcome(status=400))
    assert (event["decision"], event["webhook"]) == ("error", "observed")
    assert REGISTRY.get_sample_value("admission_requests_total", labels) == before + 1
    assert REGISTRY.get_sample_value("admission_in_flight", {"webhook": "observed"}) == 0


def test_the_reasons_of_the_reflector_are_the_series_that_are_created() -> None:
    from app.kube import reflector  # noqa: PLC0415

    known = set(reflector._REASONS.values()) | {"eof", "idle", "internal", "transport", "server_error", "client_error"}
    assert set(watches.RESTART_REASONS) == known


async def test_what_is_in_flight_is_the_sum_of_all_webhooks_in_the_process() -> None:
    labels = {"webhook": "shared"}
    admission.create_series(("shared",))
    first, second = ReviewObserver(("shared",)), ReviewObserver(("shared",))
    for observer in (first, first, second):
        observer.started("shared")
    first.flush()
    second.flush()
    assert REGISTRY.get_sample_value("admission_in_flight", labels) == 3
    first.finished(outcome(webhook="shared"))
    assert REGISTRY.get_sample_value("admission_in_flight", labels) == 2
