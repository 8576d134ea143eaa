"""Spans by OpenTelemetry: of reviews and of calls, each a child of the span that the caller names.

Imported only where spans are wanted. Most are made after the fact; a thread sends them, and drops those that it cannot
send.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from importlib.metadata import version

import requests
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.util.types import AttributeValue

from app.admission.endpoint import Outcome
from app.tracing.context import PARENT, TraceContext, of_headers, of_metadata

CLOSE_SECONDS = 2.0
"""How long the end of a process waits for its last spans."""
_SHOWN = 253
_MESSAGE = 512

Attributes = Mapping[str, AttributeValue]
Metadata = tuple[tuple[str, str | bytes], ...]


class _Unredirected(requests.Session):
    """Follows no redirect: the collector's address, and headers with credentials, are the operator's choice."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002 - the answer does not count
        return None


class Spans:
    """Makes the spans of one process. Where the sampler says no, a span costs little and goes nowhere."""

    def __init__(self, role: str) -> None:
        # It logs invalid trace headers of callers there, which an operator cannot fix.
        logging.getLogger("opentelemetry.trace.span").setLevel(logging.ERROR)
        # Ours alone, not the process's: libraries that find one make spans of their own, of health probes too.
        self._provider = TracerProvider(resource=_resource(role), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(session=_Unredirected())))
        self._tracer = self._provider.get_tracer("berth", version("berth"))

    def reviewed(self, outcome: Outcome, word: str, ended: float) -> TraceContext:
        """The span of a review that ended at this Unix time with the `word` of its decision; its context."""
        decision, request = outcome.decision, outcome.request
        attributes: dict[str, AttributeValue] = {
            "berth.webhook": outcome.webhook,
            "berth.decision": word,
            "berth.reason": decision.reason,
            "http.response.status_code": outcome.status,
        }
        if request is not None:
            attributes |= {
                "berth.review.uid": request.uid[:_SHOWN],
                "berth.operation": request.operation,
                "berth.dry_run": bool(request.dry_run),
                "berth.patch_ops": len(decision.operations),
                "k8s.namespace.name": request.namespace[:_SHOWN],
                "k8s.object.kind": request.kind.kind[:_SHOWN],
            }
            name, generate_name = request.names
            attributes |= {"k8s.object.name": name[:_SHOWN]} if name else {}
            attributes |= {"k8s.object.generate_name": generate_name[:_SHOWN]} if generate_name else {}
        if word != "allowed":
            # One text without a form in UTF-8 would cost all that are sent together with it.
            attributes["berth.message"] = decision.message[:_MESSAGE].encode(errors="replace").decode()
        parent, failure = of_headers(outcome.headers), decision.reason if word == "error" else ""
        return self._past(f"review {outcome.webhook}", parent, attributes, ended, outcome.seconds, failure)

    def served(self, service: str, method: str, code: str, *, seconds: float, metadata: Metadata) -> None:
        """The span of a gRPC call that has just ended with `code`, a status in capitals.

        Streams, which stay open for days, have no span, nor have services for anyone, such as health.
        """
        name, failure = f"{service}/{method}", code if code in _FAULTS else ""
        attributes = _call_attributes(name) | {"rpc.response.status_code": code}
        self._past(name, of_metadata(metadata), attributes, time.time(), seconds, failure)

    def calling(self, service: str, method: str) -> Calling:
        """The span of a gRPC call of ours that begins now."""
        name = f"{service}/{method}".lstrip("/")
        return Calling(self._tracer.start_span(name, Context(), trace.SpanKind.CLIENT, _call_attributes(name)))

    def close(self) -> None:
        """Send what is left; gives up after `CLOSE_SECONDS`."""
        # The library's own deadline does not hold while it tries again, so it is left behind in a thread.
        closing = threading.Thread(target=self._provider.shutdown, name="spans-close", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def _past(
        self,
        name: str,
        parent: TraceContext | None,
        attributes: Attributes,
        ended: float,
        seconds: float,
        failure: str,
    ) -> TraceContext:
        begun = int((ended - seconds) * 1e9)
        span = self._tracer.start_span(name, _remote(parent), trace.SpanKind.SERVER, attributes, start_time=begun)
        if failure:
            span.set_status(trace.Status(trace.StatusCode.ERROR, failure))
        span.end(int(ended * 1e9))
        return _context_of(span)


class Calling:
    """The span of a call that is under way; `metadata` is to be sent with the call."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        context = _context_of(span)
        self.metadata = ((PARENT, f"00-{context.trace_id}-{context.span_id}-{context.flags:02x}"),)

    def end(self, code: str) -> None:
        """It ended with `code`, a gRPC status in capitals."""
        self._span.set_attribute("rpc.response.status_code", code)
        if code != "OK":
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, code))
        self._span.end()


_FAULTS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""Ends of calls that are the server's fault and not the caller's."""


def _call_attributes(name: str) -> dict[str, AttributeValue]:
    return {"rpc.system.name": "grpc", "rpc.method": name.lstrip("/")}


def _resource(role: str) -> Resource:
    """Who we are, where the environment does not say it."""
    resource = Resource.create()
    ours = {SERVICE_VERSION: version("berth")}
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        ours[SERVICE_NAME] = f"berth-{role}"
    if SERVICE_INSTANCE_ID not in resource.attributes and os.environ.get("HOSTNAME"):
        ours[SERVICE_INSTANCE_ID] = f"{os.environ['HOSTNAME']}-{os.getpid()}"
    return resource.merge(Resource(ours))


def _remote(parent: TraceContext | None) -> Context:
    """Where the span hangs; without a parent it begins a trace of its own."""
    if parent is None:
        return Context()
    remote = trace.SpanContext(
        int(parent.trace_id, 16),
        int(parent.span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(parent.flags),
        trace_state=trace.TraceState.from_header([parent.state]) if parent.state else None,
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(remote), Context())


def _context_of(span: trace.Span) -> TraceContext:
    context = span.get_span_context()
    return TraceContext(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags)
