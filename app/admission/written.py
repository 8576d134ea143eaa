"""Decodes the whole object of a write, for checks that read all of it."""

from __future__ import annotations

import msgspec

from app.admission.review import Request
from app.errors import Denied
from app.wire import JSON, decode_json


def written_object(request: Request, *, reason: str) -> JSON | None:
    """What is created or updated; None for other requests, subresources and objects that are being deleted.

    An object that is being deleted is left alone, so that its finalizers can be removed. Raises Denied, with `reason`,
    for what cannot be read.
    """
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource or not request.has_object:
        return None
    obj = decode_object(request.object, reason=reason)
    metadata = obj.get("metadata")
    return None if isinstance(metadata, dict) and metadata.get("deletionTimestamp") else obj


def old_object(request: Request, *, reason: str) -> JSON | None:
    """What an update starts from; None for other requests."""
    if request.operation != "UPDATE" or bytes(request.old_object) == b"null":
        return None
    return decode_object(request.old_object, reason=reason)


def decode_object(raw: msgspec.Raw, *, reason: str) -> JSON:
    """A raw object of a review. Raises Denied, with `reason`, for what is no JSON object."""
    try:
        obj = decode_json(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Denied(f"the object cannot be read: {error}", reason=reason, code=400) from error
    if not isinstance(obj, dict):
        raise Denied("the object cannot be read: want a JSON object", reason=reason, code=400)
    return obj
