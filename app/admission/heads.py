"""Heads of HTTP requests that are reviews: what they must say, and which of them are ordinary.

An API server sends the same head again and again, but for the length of the body. It is parsed once, by the parser that
reads all other requests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import httptools

from app.errors import BadReview

Headers = Sequence[tuple[bytes, bytes]]
"""With names in lower case."""

LIMIT = 2048
"""Bytes of a head; a longer one is not ordinary."""
KNOWN = 256
_END = b"\r\n\r\n"
_DIGITS = 7
_LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]{1,%d})\r\n" % _DIGITS)
_OTHERS = frozenset({b"authorization", b"expect", b"transfer-encoding", b"upgrade"})
"""They ask for more than an answer, say that the body comes in another form, or who calls."""


class Head(NamedTuple):
    """An ordinary head: a POST of JSON in HTTP/1.1, and the connection may be used again.

    Its bytes are those `before` the length of the body, the length and those `after` it.
    """

    path: str
    headers: Headers
    before: bytes
    after: bytes


def check_headers(method: str, headers: Headers) -> None:
    """Raise BadReview (405, 415) where no review can be in the body."""
    if method != "POST":
        raise BadReview(f"method: want POST, got {method}", status=405)
    for name, value in headers:
        if name == b"content-type":
            if value == b"application/json" or value.split(b";", 1)[0].strip().lower() == b"application/json":
                return
            raise BadReview(f"Content-Type: want application/json, got {value[:100].decode('latin-1')!r}", status=415)
    raise BadReview("Content-Type: want application/json, got none", status=415)


def find_head(data: bytes, last: Head | None = None) -> tuple[Head, int, int] | None:
    """The ordinary head that `data` begins with, where the body begins, and where it ends; None for all else.

    `last` is the head of the request before this one, which is nearly always the same but for the length.
    """
    if last is not None and data.startswith(last.before):
        start = len(last.before)
        end = data.find(b"\r", start, start + _DIGITS + 1)
        digits = data[start:end]
        if digits.isdigit() and data.startswith(last.after, end):
            begin = end + len(last.after)
            return last, begin, begin + int(digits)
    begin = data.find(_END, 0, LIMIT) + len(_END)
    if begin < len(_END):
        return None
    length = _LENGTH.search(data, 0, begin)
    if length is None:
        return None
    head = _parsed(data[: length.start(1)], data[length.end(1) : begin])
    return None if head is None else (head, begin, begin + int(length[1]))


@lru_cache(maxsize=KNOWN)
def _parsed(before: bytes, after: bytes) -> Head | None:
    """The head that has these bytes before and after the length of its body."""
    reader = _Reader()
    try:
        # It has to end where it was seen to end.
        reader.parser.feed_data(before + b"1" + after[:-1])
        if reader.complete:
            return None
        reader.parser.feed_data(after[-1:])
        return reader.head(before, after) if reader.complete else None
    except (httptools.HttpParserError, httptools.HttpParserUpgrade, UnicodeDecodeError, BadReview):
        return None


class _Reader:
    """Takes what the parser finds."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.complete = False
        self.parser = httptools.HttpRequestParser(self)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.complete = True

    def head(self, before: bytes, after: bytes) -> Head | None:
        parser, names = self.parser, [name for name, _ in self.headers]
        check_headers(parser.get_method().decode("ascii"), self.headers)
        if parser.get_http_version() != "1.1" or not parser.should_keep_alive():
            return None
        if names.count(b"content-length") != 1 or not _OTHERS.isdisjoint(names):
            return None
        path = httptools.parse_url(self.url).path
        if path is None or b"%" in path:
            return None
        return Head(path.decode("ascii"), tuple(self.headers), before, after)
