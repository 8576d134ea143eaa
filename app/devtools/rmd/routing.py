"""Which handler answers a request, and what the daemon's router answers itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

TEXT = "text/plain"
SNIFFED = "text/plain; charset=utf-8"
"""The type that Go gives to a text for which the handler names none."""
JSON_TYPE = "application/json"

ROUTES: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("GET", re.compile("/v1/cache"), "cache"),
    ("GET", re.compile("/v1/cache/(l[23]|llc)"), "level"),
    ("GET", re.compile("/v1/cache/(l[23]|llc)/([0-9][^/]*)"), "one_cache"),
    ("GET", re.compile("/v1/policy"), "policy"),
    ("POST", re.compile("/v1/hospitality"), "hospitality"),
    ("GET", re.compile("/v1/workloads"), "workloads"),
    ("POST", re.compile("/v1/workloads"), "create"),
    ("GET", re.compile("/v1/workloads/([^/]+)"), "workload"),
    ("PATCH", re.compile("/v1/workloads/([^/]+)"), "patch"),
    ("DELETE", re.compile("/v1/workloads/([^/]+)"), "delete"),
    ("GET", re.compile("/v1/mba"), "mba"),
)
"""Method, path and handler. The daemon asks for `[0-9]*` in an id, which its router looks for anywhere in it."""
_SERVICES = re.compile("/v1/(cache|policy|hospitality|workloads|mba)(/.*)?")
_EMPTY_BODY = frozenset({"GET", "HEAD", "OPTIONS", "DELETE", "TRACE"})


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer; `type` "" is no Content-Type."""

    status: int
    body: bytes
    type: str = SNIFFED


@dataclass(frozen=True, slots=True)
class Match:
    """The name of a handler, and the parts of the path that it takes."""

    handler: str
    parts: tuple[str, ...]


def text(status: int, body: str, kind: str = SNIFFED) -> Answer:
    """A text as the daemon answers it: an empty one has no type."""
    return Answer(status, body.encode(), kind if body else "")


def unknown(path: str) -> Answer | None:
    """The answer to a path that is no service of the daemon; it is given before the client is looked at."""
    return None if _SERVICES.fullmatch(path) else text(404, "404 page not found\n")


def route(method: str, path: str, headers: Mapping[str, str]) -> Match | Answer:
    """The handler for a request, or the router's own answer. Names of headers are in lower case."""
    path = "/" + path.strip("/")
    found = [(each, match, name) for each, pattern, name in ROUTES if (match := pattern.fullmatch(path))]
    if not found:
        return text(404, "404: Page Not Found")
    fitting = [(match, name) for each, match, name in found if each == method]
    if not fitting:
        return text(405, "405: Method Not Allowed")
    kinds = headers.get("content-type") or ("" if method in _EMPTY_BODY else "application/octet-stream")
    if kinds and not _names(kinds, JSON_TYPE):
        return text(415, "415: Unsupported Media Type")
    if not _names(headers.get("accept") or "*/*", JSON_TYPE, "*/*"):
        return text(406, "406: Not Acceptable")
    match, name = fitting[0]
    return Match(name, match.groups())


def _names(kinds: str, *known: str) -> bool:
    return any(kind.partition(";")[0].strip() in known for kind in kinds.split(","))
