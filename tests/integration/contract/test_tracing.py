"""The real process honors the trace of whoever calls it: in its log lines always, in spans where they are wanted."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.otlp_receiver import Receiver

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().serving() as made:
        yield made


def post(server: Any, asked: Any, traceparent: str) -> int:
    connection: http.client.HTTPSConnection = server.connect()
    try:
        headers = {"Content-Type": "application/json", "Traceparent": traceparent}
        connection.request("POST", "/mutate", json.dumps(asked).encode(), headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def test_the_log_line_names_the_trace_without_any_library(server, review) -> None:
    asked = review("webhook-demo")
    for uid, traceparent in (("traced", f"00-{TRACE}-{SPAN}-00"), ("untraced", f"00-{TRACE}-{SPAN}-00-x")):
        asked["request"]["uid"] = uid
        assert post(server, asked, traceparent) == 200
    lines = {}

    def found() -> bool:
        lines.update({event["uid"]: event for event in server.events("review") if "uid" in event})
        return {"traced", "untraced"} <= lines.keys()

    server.until(found, "logged")
    assert (lines["traced"]["trace_id"], lines["traced"]["span_id"]) == (TRACE, SPAN)
    assert "trace_id" not in lines["untraced"]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_last_spans_are_sent_before_the_process_ends(launch, pki, review, receiver: Receiver, workers: int) -> None:
    environment = receiver.environment | {"OTEL_BSP_SCHEDULE_DELAY": "60000"}
    server = launch(pki, "--insecure", f"--workers={workers}", env=environment).until_ready()
    for _ in range(6):
        assert post(server, review("webhook-demo"), f"00-{TRACE}-{SPAN}-01") == 200
    assert post(server, review("webhook-demo"), f"00-{TRACE}-{SPAN}-00") == 200
    assert receiver.spans == []
    server.signal()
    assert server.wait() == 0
    assert [(span.trace_id, span.parent) for span in receiver.spans] == [(TRACE, SPAN)] * 6
    assert {span.resource["service.name"] for span in receiver.spans} == {"berth-webhook"}
    logged = {event["span_id"] for event in server.events("review")}
    assert {span.span_id for span in receiver.spans} < logged


def test_a_collector_that_is_silent_keeps_neither_answers_nor_the_end(launch, pki, review, receiver: Receiver) -> None:
    receiver.silent.set()
    server = launch(pki, "--insecure", env=receiver.environment).until_ready()
    for _ in range(20):
        assert post(server, review("webhook-demo"), f"00-{TRACE}-{SPAN}-01") == 200
    server.signal()
    assert server.wait() == 0
