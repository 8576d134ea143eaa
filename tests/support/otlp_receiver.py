"""A receiver of OTLP over HTTP on loopback, as a collector has it: takes protobuf, and keeps the spans."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.waiting import PATIENCE


@dataclass(frozen=True)
class Received:
    """One span with the attributes of its resource; ids in hexadecimal digits."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent: str
    state: str
    status: int
    seconds: float
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Receiver:
    """`spans` are those that came in; while `silent`, requests are taken and not answered."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.paths: list[str] = []
        self.silent = threading.Event()
        self._released = released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.silent.is_set():
                    released.wait(60)
                    return
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.paths.append(self.path)
                receiver.spans += decoded(body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What tells a process to send its spans here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def until(self, true: Callable[[], Any], *, seconds: float = PATIENCE) -> None:
        end, pause = time.monotonic() + seconds, threading.Event()
        while not true():
            assert time.monotonic() < end, f"never came true; spans: {self.spans}"
            pause.wait(0.02)

    def answer(self) -> None:
        """Be silent no more; a request that waits is let go, and may come again."""
        self.silent.clear()
        self._released.set()

    @contextmanager
    def serving(self) -> Iterator[Receiver]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self._released.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def decoded(body: bytes) -> list[Received]:
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    return [
        Received(
            span.name,
            span.kind,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.trace_state,
            span.status.code,
            (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
            values(span.attributes),
            values(group.resource.attributes),
        )
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
