"""The trace context is read strictly: what is malformed counts as not given, and nothing that is sent can raise."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tracing.context import TraceContext, of_headers, of_metadata, parse

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"
STRICT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (GOOD, 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f" {GOOD}\t", 1),
        (f"01-{TRACE}-{SPAN}-03", 3),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-bring", 1),
    ],
)
def test_a_context_is_read(value: str, flags: int) -> None:
    assert parse(value, "vendor=1") == TraceContext(TRACE, SPAN, flags, "vendor=1")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        GOOD.upper(),
        f"{GOOD}-more",
        f"{GOOD}-",
        f"{GOOD}0",
        f"ff-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"cc-{TRACE}-{SPAN}-01-{'x' * 600}",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE[:-1]}\N{ARABIC-INDIC DIGIT ONE}-{SPAN}-01",
        f"{GOOD}\n",
        f"{GOOD},{GOOD}",
    ],
)
def test_what_is_malformed_counts_as_not_given(value: str) -> None:
    assert parse(value) is None


def test_headers_carry_it_once() -> None:
    parent = (b"traceparent", GOOD.encode())
    other = (b"content-type", b"application/json")
    assert of_headers([other]) is None
    assert of_headers([other, parent]) == TraceContext(TRACE, SPAN, 1)
    assert of_headers([parent, (b"tracestate", b"a=1"), (b"tracestate", b"b=2")]) == TraceContext(
        TRACE, SPAN, 1, "a=1,b=2"
    )
    assert of_headers([parent, other, parent]) is None
    assert of_headers([parent, (b"tracestate", b"a=" + b"x" * 600)]) == TraceContext(TRACE, SPAN, 1)
    assert of_headers([(b"tracestate", b"a=1")]) is None


def test_metadata_carry_it_as_text() -> None:
    assert of_metadata([("traceparent", GOOD), ("tracestate", "a=1")]) == TraceContext(TRACE, SPAN, 1, "a=1")
    assert of_metadata([("traceparent", GOOD.encode())]) is None
    assert of_metadata([]) is None


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.text(max_size=80), st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.{0,3}")))
def test_no_text_raises_and_only_sound_ones_count(text: str) -> None:
    found = parse(text)
    if text.startswith("00"):
        assert (found is not None) == bool(STRICT.fullmatch(text.strip(" \t")))
    if found is not None:
        assert re.fullmatch(r"[0-9a-f]{32}", found.trace_id, re.ASCII)
        assert re.fullmatch(r"[0-9a-f]{16}", found.span_id, re.ASCII)
        assert 0 <= found.flags < 256


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"traceparent", b"tracestate", b"accept"]),
            st.one_of(st.binary(max_size=70), st.just(GOOD.encode())),
        ),
        max_size=5,
    )
)
def test_no_bytes_in_headers_raise(headers: list[tuple[bytes, bytes]]) -> None:
    found = of_headers(headers)
    assert found is None or found.trace_id.strip("0")
