"""Texts from outside in messages, cut and quoted, words that are near, and times as the API writes them. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

SHOWN = 80
"""Characters of a value that a message quotes."""
MESSAGE = 1024
"""Characters of a whole message: of an Event, a condition, an audit annotation."""
_UNIT = re.compile("....")
"""Of UTF-16, in hexadecimal digits."""
_NEAR = 0.75
"""How much of two words must be alike, between 0 and 1: `nmae` and `name` are."""
_CONTEXT = re.compile(r" ssl:(?:<[^>]*>|\w+)")
"""How aiohttp says by which TLS context it tried to connect."""
UNTRUSTED = "tls: failed to verify the certificate"
"""How the fault of a connection begins whose other end is not trusted."""
_PLAIN = "http: server gave HTTP response to HTTPS client"
_PEER = re.compile(r"ipv[46]:([^ ]+?): ")
_VERIFIED = re.compile(r"CERTIFICATE_VERIFY_FAILED: (.*?)(?:: OK)?$")
_UNRESOLVED = re.compile(r"(?:errors resolving|DNS resolution failed for) ([^ ]+?):\d+:")
"""How gRPC says whom it called, what OpenSSL said of a certificate, and which name it could not resolve."""

_WANTS = {"tuple_type": "want a list", "model_type": "want a mapping"}
"""Texts for errors of pydantic, by type, where its own are unclear."""


def cut(text: str, limit: int = SHOWN) -> str:
    """At most `limit` characters; a text that is cut ends with "…"."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def abridged(text: str, limit: int = MESSAGE) -> str:
    """A message of at most `limit` characters: of a longer one the middle is left out, for the reason is at its end."""
    if len(text) <= limit:
        return text
    begin = (limit - 3) // 2
    return f"{text[:begin]} … {text[len(text) - (limit - 3 - begin) :]}"


def enumerated(items: Sequence[str], limit: int = MESSAGE) -> str:
    """The items, at most `limit` characters; those that are left out are counted: "a; b; … and 12 more"."""
    text, rest = "; ".join(items), f"; … and {len(items)} more"
    if len(text) <= limit:
        return text
    ends = accumulate(len(item) + 2 for item in items)
    shown = sum(end - 2 <= limit - len(rest) for end in ends)
    return f"{'; '.join(items[:shown])}; … and {len(items) - shown} more" if shown else abridged(text, limit)


def quoted(text: str, limit: int = SHOWN) -> str:
    """The text in quotes, cut, with everything unprintable escaped."""
    return repr(cut(text, limit))


def printable(text: str) -> str:
    """The text with all that cannot be printed, or commands a terminal, escaped as JSON does it; line breaks too."""
    return (
        text
        if text.isprintable()
        else "".join(character if character.isprintable() else _escaped(character) for character in text)
    )


def _escaped(character: str) -> str:
    return _UNIT.sub(r"\\u\g<0>", character.encode("utf-16-be", "surrogatepass").hex())


def closest(word: str, words: Iterable[str]) -> str:
    """The known word that is probably meant by one that is not known; "" where none is near.

    Upper and lower case make no difference.
    """
    by_form = {candidate.lower(): candidate for candidate in words}
    near = difflib.get_close_matches(cut(word.lower()), by_form, n=1, cutoff=_NEAR)
    return by_form[near[0]] if near else ""


def several(count: int, noun: str) -> str:
    """A number with its noun, which takes an s: "1 Pod", "2 Pods"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def one_line(text: str, limit: int) -> str:
    return abridged(" ".join(text.split()), limit)


def fault(error: BaseException) -> str:
    """Why a request had no answer, in words; without the objects of Python that libraries print."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    # What aiohttp wraps; its own text has the reprs of both. By name: who prints a message need not import ssl.
    cause, host, port = (getattr(error, name, None) for name in ("os_error", "host", "port"))
    match type(cause).__name__:
        case "ConnectionRefusedError":
            return f"the connection to {host}:{port} was refused: is the address right, and does anything listen there?"
        case "gaierror":
            return f"dial tcp: lookup {host}: no such host"
        case "SSLCertVerificationError":
            return f"{UNTRUSTED} of {host}:{port}: {_x509(str(getattr(cause, 'verify_message', cause)))}"
        case "ConnectionResetError":
            return f"read tcp {host}:{port}: connection reset by peer"
    text = _CONTEXT.sub("", str(error)) or type(error).__name__
    if "WRONG_VERSION_NUMBER" in text:
        return f"{_PLAIN} at {host}:{port}"
    return "EOF: the server closed the connection" if text == "Server disconnected" else text


def rpc_fault(details: str) -> str:
    """The details of a gRPC status: of one that says how a connection failed, in the words for API servers."""
    place = _PEER.search(details)
    where = "" if place is None else f" {unquote(place[1])}"
    if "Connection refused" in details:
        return f"dial tcp{where}: connect: connection refused"
    if "WRONG_VERSION_NUMBER" in details:
        return f"{_PLAIN}{where and f' at{where}'}"
    if said := _VERIFIED.search(details):
        return f"{UNTRUSTED}{where and f' of{where}'}: {_x509(said[1])}"
    if "handshake failed" in details.lower():
        return f"tls: handshake failed{where and f' with{where}'}: {details.rpartition('OPENSSL_internal:')[2]}"
    if lookup := _UNRESOLVED.search(details):
        return f"dial tcp: lookup {lookup[1]}: no such host"
    if place is not None and details.endswith("Socket closed"):
        return f"read tcp{where}: connection closed by the server"
    return details


def _x509(said: str) -> str:
    """What OpenSSL says of a certificate, in Go's words."""
    if "issuer certificate" in said or "self-signed" in said or "self signed" in said:
        return "x509: certificate signed by unknown authority"
    if "expired" in said or "not yet valid" in said:
        return f"x509: certificate has expired or is not yet valid ({said})"
    return f"x509: {said.rpartition(' mismatch, ')[2].rstrip('.')}"


def wanted(item: ErrorDetails) -> str:
    """What one error of pydantic says of a value, in our words: "want …", or the text of our own validator."""
    return _WANTS.get(item["type"]) or in_our_words(item["msg"])


def in_our_words(message: str) -> str:
    """A message of pydantic, or one that contains such a message."""
    return message.replace("Value error, ", "", 1).partition(", unable to")[0].replace("Input should be", "want", 1)


def utc_now() -> datetime:
    """The present time, in UTC."""
    return datetime.now(UTC)


def stamp(moment: datetime | None = None) -> str:
    """A UTC time in RFC 3339 with whole seconds; the present one if none is given."""
    return f"{moment or utc_now():%Y-%m-%dT%H:%M:%SZ}"


def moment(text: object) -> datetime | None:
    """The time that a timestamp of the API says, None where it says none."""
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return time if time is not None and time.tzinfo is not None else None
