"""Heads of requests that are known from the request before are read as those that are not."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from app.admission.heads import find_head

_PARTS = (
    b"POST /mutate?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
    b"\r\nContent-Type: application/json\r\n\r\n",
)
KNOWN = _PARTS[0] + b"15" + _PARTS[1]
_LENGTHS = st.one_of(
    st.integers(0, 10**9).map(lambda number: b"%d" % number),
    st.sampled_from(
        (b"", b" 15", b"15 ", b"+15", b"-1", b"0015", b"1_5", b"15\r\nContent-Length: 16", b"\xef\xbc\x91")
    ),
)
_AFTER = st.sampled_from((b"", b"{}", b"\r\n", _PARTS[1], KNOWN))


@given(length=_LENGTHS, cut=st.integers(0, 200), rest=_AFTER)
@example(length=b"12345678", cut=200, rest=b"")
@example(length=b"1234567", cut=200, rest=b"{}")
def test_the_head_before_makes_no_difference(length: bytes, cut: int, rest: bytes) -> None:
    found = find_head(KNOWN)
    assert found is not None
    data = (_PARTS[0] + length + _PARTS[1])[:cut] + rest
    assert find_head(data, found[0]) == find_head(data)
