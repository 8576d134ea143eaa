"""One API request after routing: what it is about, who asks, and its body decoded within limits.

Owns the reading of query options and bodies. Everything hostile in a body (size, depth, syntax, encoding) ends here
as a Status, so that the rooms behind meet only JSON objects of sane depth.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from app.devtools.sandbox.api.failures import bad_request, failure, unsupported_media
from app.devtools.sandbox.api.protobuf import MEDIA_TYPE, decode_protobuf
from app.wire import JSON, decode_json, encode_json, load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.devtools.sandbox.access.auth import User
    from app.devtools.sandbox.kinds.builtin import ApiResource

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes of one request body, as in the API server."""
MAX_DEPTH = 200
"""Levels of nesting; deeper bodies are refused before any recursion meets them."""
_BODY_TYPES = ("application/json", "application/yaml", MEDIA_TYPE)


@dataclass(slots=True)
class Call:
    """`verb` is RBAC's word. `query` holds the first value of every parameter; `warnings` collect for the answer.

    `path` is what follows the subresource `proxy`.
    """

    verb: str
    resource: ApiResource
    namespace: str
    name: str
    subresource: str
    user: User
    query: Mapping[str, str]
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    user_agent: str = ""
    warnings: list[str] = field(default_factory=list)
    path: str = ""

    @property
    def dry_run(self) -> bool:
        """Raises StatusError 400 for a value other than `All`."""
        value = self.query.get("dryRun", "")
        if value not in ("", "All"):
            raise _bad_option("dryRun", value, '"All"')
        return value == "All"

    @property
    def manager(self) -> str:
        """The field manager: as asked, or the first word of the user agent."""
        return self.query.get("fieldManager") or self.user_agent.split("/")[0][:128] or "unknown"

    @property
    def field_validation(self) -> str:
        value = self.query.get("fieldValidation") or "Warn"
        if value not in ("Ignore", "Warn", "Strict"):
            raise _bad_option("fieldValidation", value, '"Ignore", "Strict", "Warn"')
        return value

    def integer(self, name: str) -> int | None:
        """A non-negative number from the query, None where it is absent; raises StatusError 400 for anything else."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise bad_request(f'strconv.ParseInt: parsing "{text[:64]}": invalid syntax')
        return int(text)

    def flag(self, name: str) -> bool:
        return name in self.query and self.query[name].lower() not in ("false", "0")


@dataclass(slots=True)
class Reply:
    """The answer; `body` is either whole or a stream of lines (watch)."""

    status: int
    body: bytes | AsyncIterator[bytes]
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = field(default_factory=list)


def json_reply(obj: Any, *, status: int = 200, content_type: str = "application/json") -> Reply:
    return Reply(status, encode_json(obj), content_type)


def decode_object(call: Call) -> JSON:
    """The body as one object; raises StatusError 400 or 415."""
    media = call.content_type.partition(";")[0].strip().lower()
    if media in ("", "application/json"):
        decoded = decode_bounded(call.body)
    elif media in ("application/yaml", "text/yaml", "application/x-yaml"):
        decoded = decode_yaml(call.body)
    elif media == MEDIA_TYPE:
        decoded = decode_protobuf(call.body)
    else:
        raise unsupported_media(_BODY_TYPES)
    if decoded is None and media == "application/json":
        return {}
    if not isinstance(decoded, dict):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {call.resource.kind}): couldn't get version/kind; "
            "json parse error: json: cannot unmarshal the body into an object"
        )
    return decoded


def decode_options(call: Call) -> JSON:
    """The DeleteOptions of a request, from its body or its query."""
    options: JSON = {}
    if call.body.strip():
        options = decode_object(call)
        if options.get("kind") not in (None, "", "DeleteOptions"):
            raise bad_request(f"the body of a deletion is DeleteOptions, not {options['kind']!r}")
    for name in ("propagationPolicy",):
        if call.query.get(name):
            options.setdefault(name, call.query[name])
    grace = call.integer("gracePeriodSeconds")
    if grace is not None:
        options.setdefault("gracePeriodSeconds", grace)
    if call.flag("orphanDependents"):
        options.setdefault("propagationPolicy", "Orphan")
    return options


def decode_bounded(body: bytes) -> Any:
    """JSON of at most MAX_DEPTH levels; raises StatusError 400."""
    try:
        decoded = decode_json(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    except RecursionError as error:
        raise bad_request("couldn't get version/kind; json parse error: exceeded max depth") from error
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        check_depth(decoded)
    return decoded


def decode_yaml(body: bytes) -> Any:
    """YAML of at most MAX_DEPTH levels; raises StatusError 400.

    60.0 becomes 60, as in every YAML that the API server reads, JSON among it.
    """
    if body.lstrip().startswith(b"{"):
        return whole_numbers(decode_bounded(body))
    try:
        decoded = load_yaml(body)
    except ValueError as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error
    check_depth(decoded)
    return decoded


def whole_numbers(value: Any) -> Any:
    """The value with integers in place of numbers such as 60.0."""
    if isinstance(value, dict):
        return {name: whole_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def check_depth(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                below += [child for child in node.values() if isinstance(child, dict | list)]
            elif isinstance(node, list):
                below += [child for child in node if isinstance(child, dict | list)]
        if not below:
            return
        level = below
    raise bad_request("couldn't get version/kind; json parse error: exceeded max depth")


def copy_json(obj: JSON) -> JSON:
    """A deep copy; through the codec, which is faster than any walk in Python."""
    copied: JSON = decode_json(encode_json(obj))
    return copied


def _bad_option(name: str, value: str, supported: str) -> Exception:
    message = f'{name}: Unsupported value: "{value[:64]}": supported values: {supported}'
    causes = [{"reason": "FieldValueNotSupported", "message": message.partition(": ")[2], "field": name}]
    return failure(422, "Invalid", f'.meta.k8s.io "" is invalid: {message}', details={"causes": causes})
