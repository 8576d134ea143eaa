"""Spans reach a collector as children of the caller's span, and cost what they are about nothing when it does not answer."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from app.admission.decision import Decision
from app.admission.endpoint import Outcome
from app.admission.review import GroupVersionKind, WholeRequest
from app.tracing import spans as spans_module
from app.tracing.context import opened_spans, parse
from app.tracing.spans import Spans
from tests.support.otlp_receiver import Receiver

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SERVER, CLIENT, ERROR = 2, 3, 2


@pytest.fixture
def made(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    for name, value in receiver.environment.items():
        monkeypatch.setenv(name, value)
    with opened_spans("test") as spans:
        assert spans is not None
        yield spans


def outcome(flags: str = "01", *, allowed: bool = True, status: int = 200, message: str = "", **values: Any) -> Outcome:
    """A review of a Pod that took a quarter of a second, called under our trace; no flags: without a trace."""
    request = WholeRequest(
        uid="u-1",
        namespace="team",
        kind=GroupVersionKind("", "v1", "Pod"),
        object=msgspec.Raw(b'{"metadata": {"generateName": "web-"}}'),
    )
    headers = [(b"traceparent", f"00-{TRACE}-{SPAN}-{flags}".encode()), (b"tracestate", b"a=1, b=2")] if flags else []
    decision = Decision(allowed=allowed, reason="Injected" if allowed else "Refused", message=message)
    known: dict[str, Any] = {"seconds": 0.25, "request": request, "headers": headers, "decision": decision}
    return Outcome(**({"webhook": "mutate", "status": status} | known | values))


def test_a_review_is_a_child_of_the_callers_span(made: Spans, receiver: Receiver) -> None:
    context = made.reviewed(outcome(), "allowed", time.time())
    receiver.until(lambda: receiver.spans)
    (span,) = receiver.spans
    assert (span.trace_id, span.parent, span.kind, span.state) == (TRACE, SPAN, SERVER, "a=1,b=2")
    assert (context.trace_id, context.span_id) == (TRACE, span.span_id)
    assert span.name == "review mutate"
    assert span.seconds == pytest.approx(0.25, abs=0.001)
    assert span.attributes == {
        "berth.webhook": "mutate",
        "berth.decision": "allowed",
        "berth.reason": "Injected",
        "berth.review.uid": "u-1",
        "berth.operation": "CREATE",
        "berth.dry_run": False,
        "berth.patch_ops": 0,
        "http.response.status_code": 200,
        "k8s.namespace.name": "team",
        "k8s.object.kind": "Pod",
        "k8s.object.generate_name": "web-",
    }
    assert span.resource["service.name"] == "berth-test"
    assert receiver.paths == ["/v1/traces"]


def test_denied_is_no_failure_and_failed_is(made: Spans, receiver: Receiver) -> None:
    made.reviewed(outcome(allowed=False, message="because"), "denied", time.time())
    made.reviewed(outcome(allowed=False, status=500, request=None), "error", time.time())
    receiver.until(lambda: len(receiver.spans) == 2)
    denied, failed = sorted(receiver.spans, key=lambda span: span.status)
    assert (denied.status, denied.attributes["berth.message"]) == (0, "because")
    assert (failed.status, failed.attributes["berth.decision"]) == (ERROR, "error")


def test_the_callers_choice_not_to_sample_counts(made: Spans, receiver: Receiver) -> None:
    context = made.reviewed(outcome("00"), "allowed", time.time())
    assert context.trace_id == TRACE
    made.reviewed(outcome(""), "allowed", time.time())
    made.close()
    (span,) = receiver.spans
    assert (span.parent, span.trace_id == TRACE) == ("", False)


def test_what_has_no_form_in_utf_8_costs_no_other_span(made: Spans, receiver: Receiver) -> None:
    made.reviewed(outcome(allowed=False, message="\ud800"), "denied", time.time())
    made.reviewed(outcome(), "allowed", time.time())
    receiver.until(lambda: len(receiver.spans) == 2)


def test_nothing_in_a_header_raises(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can reach the port writes them. Sent at the end: the sender's thread draws from `random`."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")

    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=60), st.sampled_from([b"a=1,", b"", b"=", b"a=1,a=1,"]))
    def send(noise: bytes, before: bytes) -> None:
        parent = (b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())
        context = spans.reviewed(outcome(headers=[parent, (b"tracestate", before + noise)]), "allowed", time.time())
        assert context.trace_id == TRACE

    with opened_spans("test") as spans:
        assert spans is not None
        send()
    assert len(receiver.spans) >= 100


def test_a_call_tells_the_other_side(made: Spans, receiver: Receiver) -> None:
    calling = made.calling("Rules", "Update")
    ((key, value),) = calling.metadata
    context = parse(value)
    assert key == "traceparent"
    assert context is not None
    made.served("universe.Rules", "Update", "INTERNAL", seconds=0.1, metadata=calling.metadata)
    calling.end("INTERNAL")
    receiver.until(lambda: len(receiver.spans) == 2)
    client, server = sorted(receiver.spans, key=lambda span: span.kind == SERVER)
    assert (client.kind, server.kind) == (CLIENT, SERVER)
    assert (server.trace_id, server.parent) == (client.trace_id, client.span_id)
    assert (client.span_id, client.trace_id) == (context.span_id, context.trace_id)
    assert (client.status, server.status) == (ERROR, ERROR)


def test_the_end_of_a_process_sends_the_last_spans(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    with opened_spans("test") as spans:
        assert spans is not None
        for _ in range(700):
            spans.reviewed(outcome(), "allowed", time.time())
    assert len(receiver.spans) == 700


def test_a_collector_that_does_not_answer_holds_nobody_up(
    made: Spans, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far more spans than are kept; and the end of the process is bounded."""
    monkeypatch.setattr(spans_module, "CLOSE_SECONDS", 0.1)
    receiver.silent.set()
    for _ in range(5000):
        made.reviewed(outcome(), "allowed", time.time())
    made.close()
    assert receiver.spans == []


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: want otlp or none"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: want http/protobuf, got 'grpc'",
        ),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "ValueError: "),
    ],
)
def test_a_mistake_costs_the_spans_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], problem: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with structlog.testing.capture_logs() as lines, opened_spans("test") as spans:
        assert spans is None
    assert [line["problem"][: len(problem)] for line in lines] == ([problem] if problem else [])


LOADS = """
import sys, app.runtime.serving, app.tenancy.agent.agent
from app.tracing.context import opened_spans
with opened_spans("x") as spans:
    print(spans, sorted(name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exp"))))
"""


def run(script: str, **environment: str) -> str:
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": ".", **environment}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_an_endpoint_nothing_is_loaded() -> None:
    assert run(LOADS).strip() == "None []"


def test_without_the_extra_it_is_said() -> None:
    absent = "import sys; sys.modules['opentelemetry.sdk'] = None\n"
    assert "OpenTelemetry is not installed" in run(absent + LOADS, OTEL_TRACES_EXPORTER="otlp")
