"""Heads of HTTP requests that are reviews: what they must say, which are ordinary, and which callers are proven.

An API server sends the same head again and again, but for the length of the body. It is parsed once, by the parser
that reads all other requests.

What follows from `userInfo` is answered to proven API servers alone. A caller is proven by its client certificate
(`--client-ca`), or by a token: the last segment of the path in the webhook configuration, or the bearer of the
request, where the API server has a kubeconfig for webhooks
(https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/, "Authenticate API servers").
A path segment works without configuration of the API server. Who can learn it: docs/adr/0018-proven-callers.md.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import httptools
import structlog

from app.errors import BadReview, UsageError
from app.kube.names import PROOF_FORM

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
_TOKEN = re.compile(PROOF_FORM)
_BEARER = b"Bearer "
_log = structlog.get_logger(__name__)


class Head(NamedTuple):
    """An ordinary head: a POST of JSON in HTTP/1.1, and the connection may be used again."""

    path: str
    headers: Headers


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


def find_head(data: bytes) -> tuple[Head, int, int] | None:
    """The ordinary head that `data` begins with, where the body begins, and where it ends; None for all else."""
    begin = data.find(_END, 0, LIMIT) + len(_END)
    if begin < len(_END):
        return None
    length = _LENGTH.search(data, 0, begin)
    if length is None:
        return None
    head = _parsed(data[: length.start(1)], data[length.end(1) : begin])
    return None if head is None else (head, begin, begin + int(length[1]))


def split_path(path: str) -> tuple[str, str]:
    """The path of a webhook without the token that may end it, and that token or ""."""
    head, _, last = path.rpartition("/")
    return (head, last) if head and _TOKEN.fullmatch(last) else (path, "")


class CallerTokens:
    """The tokens in a file, one a line, followed while the process runs; all of them are accepted.

    Raises UsageError where the file cannot be read, or has another line. No message repeats one.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        try:
            self._tokens = self._read()
        except (OSError, ValueError) as error:
            raise UsageError(f"--caller-token-file: {error}") from error

    def proves(self, path_token: str, headers: Headers) -> bool:
        """Whether the token in the path, or the bearer, is one of these. Compared in constant time."""
        bearers = [value.removeprefix(_BEARER) for name, value in headers if name == b"authorization"]
        shown = (path_token.encode(), *bearers)
        return any(hmac.compare_digest(text, token) for text in shown for token in self._tokens)

    def look(self) -> None:
        """Read the file once more; what cannot be read leaves the tokens as they are."""
        try:
            self._tokens = self._read()
        except (OSError, ValueError) as error:
            _log.warning("tokens of callers cannot be read; the old ones stay", problem=str(error))

    async def watch(self, *, poll_seconds: float) -> None:
        while True:
            await asyncio.sleep(poll_seconds)
            self.look()

    def _read(self) -> tuple[bytes, ...]:
        lines = self._path.read_text(encoding="utf-8").split()
        if not lines:
            raise ValueError(f"{self._path}: want a token, got an empty file")
        for number, line in enumerate(lines, 1):
            if not _TOKEN.fullmatch(line):
                raise ValueError(f"{self._path}: line {number}: want 64 to 128 of 0-9 and a-z")
        return tuple(line.encode() for line in lines)


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
        return reader.head() if reader.complete else None
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

    def head(self) -> Head | None:
        parser, names = self.parser, [name for name, _ in self.headers]
        check_headers(parser.get_method().decode("ascii"), self.headers)
        if parser.get_http_version() != "1.1" or not parser.should_keep_alive():
            return None
        if names.count(b"content-length") != 1 or not _OTHERS.isdisjoint(names):
            return None
        path = httptools.parse_url(self.url).path
        if path is None or b"%" in path:
            return None
        return Head(path.decode("ascii"), tuple(self.headers))
