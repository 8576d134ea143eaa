"""Turns an unsuccessful HTTP answer, or the lack of one, into an `ApiError`.

The message of a Kubernetes Status is copied without tokens of webhooks, and cut; any other body (a proxy's page, an
object with secrets) is not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from app.errors import ApiError
from app.kube.names import PROOF_FORM
from app.text import fault, one_line
from app.wire import JSON, decode_json

MESSAGE_LIMIT = 1000
"""Characters: what webhooks and quotas say stands behind the longest names. The end of a longer message stays."""
UNSERVED = "nothing is served at this path: is the definition of the kind installed, in this version?"
"""Of an answer 404 without a Status: an API server has one for each object of a kind that it serves."""
MAX_RETRY_AFTER = 300.0
_WARNING = re.compile(r'\b\d{3} [^\s,"]+ "((?:[^"\\]|\\.)*)"')
"""One warning: code, agent and a quoted text. A header may have several."""
_TOKEN = re.compile(rf'(\bPost "https://[^"?\s]*/){PROOF_FORM}(?=[?"])')
"""In the URL of a webhook that an API server could not call, which it quotes to the author of the request."""


def error_of_status(
    what: str,
    status_object: JSON,
    *,
    status: int | None = None,
    delay: float | None = None,
    warnings: tuple[str, ...] = (),
) -> ApiError:
    """The error that a Status object describes; `status` is the HTTP status where it is not the object's code.

    `what` is our own description of the request (method and path).
    """
    code = status if status is not None else _number(status_object.get("code"), 500)
    message, reason, details = (status_object.get(name) for name in ("message", "reason", "details"))
    without = UNSERVED if code == 404 and not reason else "no Status in the answer"
    text = _TOKEN.sub(r"\1…", message) if isinstance(message, str) and message else without
    seconds = _number(details.get("retryAfterSeconds"), 0) if isinstance(details, dict) else 0
    if delay is None and seconds:
        delay = min(float(seconds), MAX_RETRY_AFTER)
    return ApiError(
        one_line(f"{what}: HTTP {code}: {text}", MESSAGE_LIMIT),
        status=code,
        reason=reason if isinstance(reason, str) else "",
        delay=delay,
        warnings=warnings,
    )


def error_of_transport(what: str, error: BaseException) -> ApiError:
    """No answer: refused, cut, timed out, not trusted. The status is 0."""
    return ApiError(one_line(f"{what}: {fault(error)}", MESSAGE_LIMIT), status=0, reason=type(error).__name__)


def delay_of(retry_after: str | None, *, clock: Callable[[], float] = time.time) -> float | None:
    """Seconds of a Retry-After header (a number or an HTTP date), at most five minutes; None if it says nothing."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - clock()
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER) if seconds == seconds else None  # noqa: PLR0124 - NaN


def warnings_in(headers: Iterable[str]) -> tuple[str, ...]:
    """The texts of Warning headers (RFC 7234), in their order; what has another form is left out."""
    return tuple(re.sub(r"\\(.)", r"\1", text) for header in headers for text in _WARNING.findall(header))


def status_in(body: bytes) -> JSON:
    """The Status object of an answer, empty where the body is something else."""
    try:
        decoded = decode_json(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) and decoded.get("kind") == "Status" else {}


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
