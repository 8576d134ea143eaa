"""What frames cost, however the bytes of a connection are cut into pieces."""

from __future__ import annotations

import itertools
import struct

from hypothesis import given
from hypothesis import strategies as st

from app.tenancy.gateway.relaying import FrameCosts

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


END_HEADERS = 4


def frame(kind: int, content: bytes = b"", *, flags: int = 0) -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, 1) + content


def test_headers_and_short_frames_cost_more_than_messages() -> None:
    costs = FrameCosts()
    assert costs.of(PREFACE) == len(PREFACE)
    assert costs.of(frame(0, b"x" * 1000)) == 256 + 1000
    assert costs.of(frame(1, b"x" * 1000)) == costs.of(frame(9, b"x" * 1000)) == 256 + 64_000
    assert costs.of(frame(6, b"12345678") * 100) == 100 * (256 + 8)
    assert costs.of(b"") == 0


def test_header_blocks_have_an_end() -> None:
    costs = FrameCosts()
    costs.of(PREFACE)
    for _ in range(100):
        costs.of(frame(1, b"x" * 16_000, flags=END_HEADERS))
    assert not costs.endless
    costs.of(frame(1, b"x" * 16_000) + frame(9, b"x" * 16_000) * 2)
    assert not costs.endless
    costs.of(frame(9, b"x" * 17_000, flags=END_HEADERS))
    assert costs.endless


def test_empty_frames_of_a_header_block_count() -> None:
    costs = FrameCosts()
    costs.of(PREFACE + frame(1) + frame(9) * 1000)
    assert costs.endless


FRAMES = st.lists(st.tuples(st.integers(0, 12), st.binary(max_size=300)), max_size=8)


@given(frames=FRAMES, cuts=st.lists(st.integers(0, 2000), max_size=20))
def test_pieces_cost_together_what_the_whole_costs(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    whole = PREFACE + b"".join(frame(kind, content) for kind, content in frames)
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    pieces = [whole[begin:end] for begin, end in itertools.pairwise(places)]
    costs = FrameCosts()
    assert sum(costs.of(piece) for piece in pieces) == FrameCosts().of(whole)
    prices = [256 + len(content) * (64 if kind in (1, 9) else 1) for kind, content in frames]
    assert FrameCosts().of(whole) == len(PREFACE) + sum(prices)
