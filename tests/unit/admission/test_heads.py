"""A head that is taken for an ordinary one says where its body ends."""

from __future__ import annotations

import re

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
def test_the_body_is_as_long_as_the_one_length_says(length: bytes, cut: int, rest: bytes) -> None:
    data = (_PARTS[0] + length + _PARTS[1])[:cut] + rest
    ordinary = cut >= len(_PARTS[0] + length + _PARTS[1]) and re.fullmatch(rb"[0-9]{1,7}", length)
    found = find_head(data)
    if ordinary:
        begin = len(_PARTS[0] + length + _PARTS[1])
        assert found is not None
        assert found[1:] == (begin, begin + int(length))
        assert found[0].path == "/mutate"
    elif found is not None:
        # It was cut, and what came behind made it a head again.
        assert rest in (_PARTS[1], KNOWN)
