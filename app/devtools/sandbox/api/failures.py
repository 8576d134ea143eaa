"""The Status answers of the API server: one constructor per reason, in the wording that clients and people know.

Owns the shape of a failure; it decides nothing about when a request fails. A field error renders itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.kinds.fielderrors import FieldError
    from app.wire import JSON


class StatusError(Exception):
    """The request ends here with this `metav1.Status`; `status["code"]` is the HTTP status."""

    def __init__(self, status: JSON, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(status.get("message", ""))
        self.status = status
        self.headers = headers or {}

    @property
    def code(self) -> int:
        return int(self.status.get("code") or 500)

    @property
    def reason(self) -> str:
        return str(self.status.get("reason", ""))


def failure(code: int, reason: str, message: str, *, details: JSON | None = None) -> StatusError:
    """A Failure with any code; `details` as the API defines them (name, group, kind, uid, causes)."""
    status: JSON = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        status["reason"] = reason
    if details:
        status["details"] = {key: value for key, value in details.items() if value}
    status["code"] = code
    return StatusError(status)


def success(details: JSON) -> JSON:
    """The Success Status that a finished deletion answers with."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def qualified(group: str, plural: str) -> str:
    """`deployments.apps`, `pods`: how messages name a resource."""
    return f"{plural}.{group}" if group else plural


def bad_request(message: str) -> StatusError:
    return failure(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return failure(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, message: str) -> StatusError:
    """403 about one resource; `message` follows `is forbidden: `."""
    subject = f'{qualified(group, plural)} "{name}"' if name else qualified(group, plural)
    details = {"name": name, "group": group, "kind": plural}
    return failure(403, "Forbidden", f"{subject} is forbidden: {message}", details=details)


def not_found(group: str, plural: str, name: str) -> StatusError:
    message = f'{qualified(group, plural)} "{name}" not found'
    return failure(404, "NotFound", message, details={"name": name, "group": group, "kind": plural})


NO_SUCH_PATH = "the server could not find the requested resource"


def no_such_path() -> StatusError:
    """404 for a path that no resource is served under; clients tell it from a missing object by its wording."""
    error = failure(404, "NotFound", NO_SUCH_PATH)
    error.status["details"] = {}
    return error


def not_in_sandbox(what: str) -> StatusError:
    """404 for what an API server has and the sandbox has not."""
    return failure(404, "NotFound", f"the sandbox does not have {what}")


def already_exists(group: str, plural: str, name: str) -> StatusError:
    message = f'{qualified(group, plural)} "{name}" already exists'
    return failure(409, "AlreadyExists", message, details={"name": name, "group": group, "kind": plural})


def conflict(group: str, plural: str, name: str, message: str = "") -> StatusError:
    """409 for a write that was based on an older version, or whose precondition failed."""
    text = message or "the object has been modified; please apply your changes to the latest version and try again"
    return failure(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {text}',
        details={"name": name, "group": group, "kind": plural},
    )


def apply_conflict(message: str, causes: list[JSON]) -> StatusError:
    """409 of a server-side apply; one cause per (manager, field path)."""
    return failure(409, "Conflict", message, details={"causes": causes})


def expired(message: str) -> StatusError:
    """410: the resource version or the continue token is older than the kept window."""
    return failure(410, "Expired", message)


def method_not_allowed() -> StatusError:
    error = failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    error.status["details"] = {}
    return error


def unsupported_media(allowed: Iterable[str]) -> StatusError:
    known = ", ".join(allowed)
    message = f"the body of the request was in an unknown format - accepted media types include: {known}"
    return failure(415, "UnsupportedMediaType", message)


def not_acceptable(allowed: Iterable[str]) -> StatusError:
    return failure(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(allowed)}")


def too_large(limit: int) -> StatusError:
    return failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def version_too_large(asked: int, current: int) -> StatusError:
    details = {
        "retryAfterSeconds": 1,
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return failure(504, "Timeout", message, details=details)


def internal(message: str) -> StatusError:
    return failure(500, "InternalError", f"Internal error occurred: {message}")


def invalid(group: str, kind: str, name: str, errors: list[FieldError]) -> StatusError:
    """422 with one cause per field error, in the order in which they were found, equal ones once."""
    distinct = list({str(error): error for error in errors}.values())
    lines = [str(error) for error in distinct]
    text = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    subject = f"{kind}.{group}" if group else kind
    return failure(
        422,
        "Invalid",
        f'{subject} "{name}" is invalid: {text}',
        details={"name": name, "group": group, "kind": kind, "causes": [error.cause for error in distinct]},
    )
