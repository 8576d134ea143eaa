"""W3C trace context in HTTP headers and gRPC metadata: `traceparent` and `tracestate`. Pure.

Read strictly (https://www.w3.org/TR/trace-context/): what is malformed, or given twice, counts as not given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

PARENT, STATE = "traceparent", "tracestate"
_PARENT = PARENT.encode()
_LIMIT = 512
"""Characters; a longer state is left out, as the specification allows."""
_SHAPE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[^\x00-\x1f]*)?", re.ASCII)


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
