"""Turns an unsuccessful HTTP answer, or the lack of one, into an `ApiError`.

Only a Kubernetes Status may speak in the message: any other body (a proxy's page, an object with secrets) is never
copied, and what is copied is cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from app.errors import EXCEEDED_QUOTA, ApiError
from app.text import one_line
from app.wire import JSON, decode_json

MESSAGE_LIMIT = 300
QUOTA_LIMIT = 1000
"""Of what names a quota with its bounds: the API server puts the longest names before and between them."""
MAX_RETRY_AFTER = 300.0


def error_of_answer(what: str, status: int, body: bytes, *, retry_after: str | None = None) -> ApiError:
    """`what` is our own description of the request (method and path); `retry_after` the header's value."""
    return error_of_status(what, _status_object(body), status=status, delay=delay_of(retry_after))


def error_of_status(
    what: str, status_object: JSON, *, status: int | None = None, delay: float | None = None
) -> ApiError:
    """The error that a Status object describes; `status` is the HTTP status where it is not the object's code."""
    code = status if status is not None else _number(status_object.get("code"), default=500)
    message = status_object.get("message")
    text = message if isinstance(message, str) and message else "no Status in the answer"
    reason = status_object.get("reason")
    details = status_object.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    if delay is None and isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0:
        delay = min(float(seconds), MAX_RETRY_AFTER)
    limit = QUOTA_LIMIT if code == 403 and EXCEEDED_QUOTA in text else MESSAGE_LIMIT
    return ApiError(
        one_line(f"{what}: HTTP {code}: {text}", limit),
        status=code,
        reason=reason if isinstance(reason, str) else "",
        delay=delay,
    )


def error_of_transport(what: str, error: BaseException) -> ApiError:
    """No answer: refused, cut, timed out, not trusted. The status is 0."""
    detail = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    return ApiError(one_line(f"{what}: {detail}", MESSAGE_LIMIT), status=0, reason=type(error).__name__)


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


def _status_object(body: bytes) -> JSON:
    try:
        decoded = decode_json(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) and decoded.get("kind") == "Status" else {}


def _number(value: Any, *, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
