"""W3C trace context in HTTP headers and gRPC metadata, and the spans of a process, where its variables ask for them.

`traceparent` and `tracestate` are read strictly (https://www.w3.org/TR/trace-context/): what is malformed, or given
twice, counts as not given. Spans are opened where OpenTelemetry is installed. A mistake in its variables costs the
spans, never the reviews.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import structlog

if TYPE_CHECKING:
    # At run time only where spans are made: the library is optional, and slow to load.
    from app.tracing.spans import Spans

_log = structlog.get_logger(__name__)
PARENT, STATE = "traceparent", "tracestate"
_PARENT = PARENT.encode()
_LIMIT = 512
"""Characters; a longer state is left out, as the specification allows."""
_SHAPE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[^\x00-\x1f]*)?", re.ASCII)
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTER = "OTEL_TRACES_EXPORTER"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


class TraceContext(NamedTuple):
    """A span: ids in lower-case hexadecimal digits, 32 and 16 of them."""

    trace_id: str
    span_id: str
    flags: int = 0
    state: str = ""


def parse(traceparent: str, tracestate: str = "") -> TraceContext | None:
    """The context of a header's value; None where it is none. A version above 00 may say more, which is not read."""
    match = _SHAPE.fullmatch(traceparent.strip(" \t")) if len(traceparent) <= _LIMIT else None
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more is not None):
        return None
    if trace_id.strip("0") == "" or span_id.strip("0") == "":
        return None
    return TraceContext(trace_id, span_id, int(flags, 16), tracestate if len(tracestate) <= _LIMIT else "")


def of_headers(headers: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """The context of a request; its headers have names in lower case."""
    # Most requests have none: nothing is decoded before there is one.
    for name, _ in headers:
        if name == _PARENT:
            return of_metadata((key.decode("latin-1"), value.decode("latin-1")) for key, value in headers)
    return None


def of_metadata(metadata: Iterable[tuple[str, str | bytes]]) -> TraceContext | None:
    pairs = [(key, value) for key, value in metadata if key in (PARENT, STATE) and isinstance(value, str)]
    parents = [value for key, value in pairs if key == PARENT]
    return parse(parents[0], ",".join(value for key, value in pairs if key == STATE)) if len(parents) == 1 else None


def wanted(environment: Mapping[str, str]) -> bool:
    exporter = environment.get(EXPORTER, "")
    if exporter == "none" or environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return bool(exporter) or any(environment.get(name) for name in ENDPOINTS)


def problem(environment: Mapping[str, str]) -> str:
    """Why what is asked for cannot be had, in one line; "" where it can."""
    if environment.get(EXPORTER, "") not in ("", "otlp"):
        return f"{EXPORTER}: want otlp or none"
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _PROTOCOL)
    if protocol != _PROTOCOL:
        return f"{_PROTOCOLS[1]}: want {_PROTOCOL}, got {protocol[:80]!r}"
    try:
        installed = all(map(importlib.util.find_spec, ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")))
    except ModuleNotFoundError:
        installed = False
    return "" if installed else "OpenTelemetry is not installed: install berth[otel]"


@contextlib.contextmanager
def opened_spans(role: str) -> Iterator[Spans | None]:
    """What makes the spans of this role, None where none are wanted or possible; the end sends the last of them."""
    spans = None
    if wanted(os.environ):
        fault = problem(os.environ)
        if not fault:
            from app.tracing.spans import Spans  # noqa: PLC0415

            try:
                spans = Spans(role)
            except Exception as error:  # noqa: BLE001  the library says in many ways that a variable is wrong
                fault = f"{type(error).__name__}: {error}"
        if fault:
            _log.warning("no spans", problem=fault)
        else:
            _log.info("spans are sent", role=role)
    try:
        yield spans
    finally:
        if spans is not None:
            spans.close()
