"""What is reported of a review: the log line says where a bug is, and never what the object was."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Histogram

from app.admission import endpoint, metrics
from app.admission.chain import Chain, MutationPlan
from app.admission.decision import Decision
from app.admission.endpoint import Outcome, ReviewEndpoint
from app.admission.review import Request, WholeRequest
from app.kube import metrics as kube_metrics
from app.metrics import BatchHistogram, publish
from app.runtime.review_log import ReviewLog


@pytest.fixture(autouse=True)
def _observed(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics.create_series(("observed",))
    monkeypatch.setitem(endpoint.in_flight, "observed", 0)


def outcome(**values: object) -> Outcome:
    decision = Decision(allowed=False, reason="InternalError", message="m", code=500)
    known: dict[str, object] = {"webhook": "observed", "status": 500, "decision": decision, "seconds": 0.01}
    return Outcome(**(known | values))  # type: ignore[arg-type]  # a dictionary of arguments


@pytest.fixture
def report(capfd):
    """Reports one outcome and returns the line that was written of it."""

    review_log = ReviewLog()

    def write(told: Outcome) -> tuple[str, dict[str, Any]]:
        review_log.finished(told)
        review_log.flush()
        (line,) = capfd.readouterr().err.splitlines()
        return line, json.loads(line)

    return write


async def test_a_bug_is_logged_with_its_place_and_without_its_text(report) -> None:
    try:
        {}["hunter2"]
    except KeyError as error:
        line, event = report(outcome(request=WholeRequest(uid="u"), error=error))
    assert (event["level"], event["error"], event["uid"]) == ("error", "KeyError", "u")
    assert any("test_review_log.py" in frame for frame in event["traceback"])
    assert "hunter2" not in line


async def test_long_names_are_cut_in_the_log(report) -> None:
    line, _ = report(outcome(request=WholeRequest(uid="u" * 9999, name="n" * 9999, namespace="s" * 9999)))
    assert len(line) < 2000


async def test_what_was_no_review_is_counted_as_an_error_without_operation(report) -> None:
    labels = {"webhook": "observed", "operation": "", "decision": "error"}
    before = REGISTRY.get_sample_value("admission_requests_total", labels)
    assert before is not None, "created at zero"
    _, event = report(outcome(status=400))
    assert (event["decision"], event["webhook"]) == ("error", "observed")
    assert REGISTRY.get_sample_value("admission_requests_total", labels) == before + 1
    publish()
    assert REGISTRY.get_sample_value("admission_in_flight", {"webhook": "observed"}) == 0


def test_the_reasons_of_the_reflector_are_the_series_that_are_created() -> None:
    from app.kube import reflector  # noqa: PLC0415

    known = set(reflector.REASONS.values()) | {"eof", "idle", "internal", "transport", "server_error", "client_error"}
    known |= {"relist", "contradiction"}
    assert set(kube_metrics.RESTART_REASONS) == known


async def test_what_is_in_flight_is_the_sum_of_all_webhooks_in_the_process() -> None:
    """The sandbox has several webhooks of one name."""
    gate = asyncio.Event()

    class Waits:
        name = "waits"

        async def inject(self, _request: Request, _plan: MutationPlan) -> None:
            await gate.wait()

    def shown() -> float | None:
        publish()
        return REGISTRY.get_sample_value("admission_in_flight", {"webhook": "shared"})

    chain = Chain(injectors=[Waits()])
    first, second = (ReviewEndpoint("shared", chain, finished=lambda _: None) for _ in range(2))
    reviews = [asyncio.create_task(one(SCOPE, _receive, _ignore)) for one in (first, first, second)]
    await asyncio.sleep(0.01)
    assert shown() == 3
    gate.set()
    await asyncio.gather(*reviews)
    assert shown() == 0


SCOPE = {"method": "POST", "headers": [(b"content-type", b"application/json")], "query_string": b""}
BODY = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-9","object":{}}}'


async def _receive() -> dict[str, Any]:
    return {"type": "http.request", "body": BODY}


async def _ignore(_message: Any) -> None: ...


async def test_a_review_that_the_server_did_not_wait_for_has_its_line(report) -> None:
    """The endpoint is cancelled while it waits for an attachment."""
    told: list[Outcome] = []

    class Waits:
        name = "waits"

        async def inject(self, _request: Request, _plan: MutationPlan) -> None:
            await asyncio.Event().wait()

    async def send(message: Any) -> None:
        raise AssertionError(message)

    waiting = ReviewEndpoint("observed", Chain(injectors=[Waits()]), finished=told.append)
    task = asyncio.create_task(waiting(SCOPE, _receive, send))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    _, event = report(told.pop())
    assert (event["uid"], event["decision"], event["reason"]) == ("u-9", "error", "Canceled")
    assert not told


async def test_only_denials_are_told_to_whoever_wants_to_know() -> None:
    told: list[Outcome] = []
    review_log = ReviewLog(told=told.append)
    denied = outcome(status=200, decision=Decision(allowed=False, reason="Refused"))
    for one in (denied, outcome(), outcome(status=400), outcome(status=200, decision=Decision(True, "Allowed"))):
        review_log.finished(one)
    review_log.flush()
    assert told == [denied]


async def test_a_trace_of_the_caller_is_in_the_line(report) -> None:
    value = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    _, event = report(outcome(headers=[(b"traceparent", value)]))
    assert (event["trace_id"], event["span_id"]) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    _, event = report(outcome(headers=[(b"traceparent", value + b"\n")], uid="u-8"))
    assert "trace_id" not in event
    assert event["uid"] == "u-8"


async def test_the_name_and_the_beginning_of_one_stand_apart(report) -> None:
    obj = msgspec.Raw(b'{"metadata": {"generateName": "web-"}}')
    _, event = report(outcome(request=WholeRequest(uid="u", object=obj)))
    assert event["generate_name"] == "web-"
    assert "name" not in event
    _, event = report(outcome(request=WholeRequest(uid="u", name="web-1", object=obj)))
    assert event["name"] == "web-1"
    assert "generate_name" not in event


async def test_of_a_review_that_waits_for_its_line_nothing_is_kept_but_the_line(capfd) -> None:
    body = msgspec.json.encode(
        {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {"uid": "u-7", "object": {"metadata": {"generateName": "web-"}, "spec": {"a": "b" * 500}}},
        }
    )
    review_log = ReviewLog()
    answering = ReviewEndpoint("observed", Chain(), finished=review_log.finished)
    before = sys.getrefcount(body)
    for _ in range(3):
        answer = answering.decide(body)
        assert isinstance(answer, endpoint.Answer)
        answering.report(answer, since=0.0, headers=())
        del answer
    assert sys.getrefcount(body) == before
    assert not capfd.readouterr().err
    review_log.flush()
    assert capfd.readouterr().err.count('"generate_name":"web-"') == 3


def test_many_observations_count_as_one_by_one() -> None:
    registry = CollectorRegistry()
    names: dict[str, Any] = {
        "documentation": "d",
        "labelnames": ("a",),
        "buckets": (0.1, 1.0, 5.0),
        "registry": registry,
    }
    batch, single = BatchHistogram("batch", **names), Histogram("single", **names)
    amounts = [0.0, 0.1, 0.1, 0.5, 1.0, 1.1, 5.0, 7.5]
    batch.labels("x").observe_all(amounts)
    for amount in amounts:
        single.labels("x").observe(amount)
    for suffix, more in (("count", {}), ("sum", {}), *(("bucket", {"le": le}) for le in ("0.1", "1.0", "5.0", "+Inf"))):
        found = [registry.get_sample_value(f"{name}_{suffix}", {"a": "x"} | more) for name in ("batch", "single")]
        assert found[0] == found[1] is not None
