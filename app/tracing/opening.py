"""Opens the spans of a process, where OpenTelemetry is installed and its variables ask for them.

A mistake in these variables costs the spans, never the reviews.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    # At run time only where spans are made: the library is optional, and slow to load.
    from app.tracing.spans import Spans

_log = structlog.get_logger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTER = "OTEL_TRACES_EXPORTER"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


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
