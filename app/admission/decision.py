"""The answer to a review: `Decision` to bytes, and what an answer may say. Pure.

The answer to a broken review still echoes what can be read of it.

An answer names objects of the request's own namespace, and tells others by number. The author of a request may not be
able to read other namespaces, and nothing of a request says that he can. So no answer names their objects or quotes
what is in them. What the author wrote himself may be repeated. A caller that has not proven to be an API server may say
any namespace: it is told no name at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from app.admission.patch import Operation
from app.admission.review import KIND, VERSIONS, Request
from app.errors import Denied
from app.kube.store import Key
from app.text import several
from app.wire import encode_json

_ELSEWHERE = "another namespace"
T = TypeVar("T")
_NULL = msgspec.Raw(b"null")


class Decision(msgspec.Struct, frozen=True):
    """The answer to a review.

    `reason` is a short CamelCase word for log and metrics; `message` is for the user, in the Status of a denial.
    `code` is the HTTP-like code inside that Status, never the HTTP status of the answer. `injected` counts by kind what
    the operations inject. A decision that many reviews share is `encoded` but for their uid; where a member is
    replaced, that goes too.
    """

    allowed: bool
    reason: str
    message: str = ""
    code: int = 0
    operations: Sequence[Operation] = ()
    warnings: Sequence[str] = ()
    audit_annotations: Mapping[str, str] = {}
    injected: Mapping[str, int] = {}
    encoded: bytes = b""


class _Loose(msgspec.Struct, rename="camel"):
    """What an error answer can still echo. Nothing of it is decoded that may be large."""

    api_version: msgspec.Raw = _NULL
    request: msgspec.Raw = _NULL


class _LooseRequest(msgspec.Struct):
    uid: msgspec.Raw = _NULL


_HEAD_BYTES = 1024
_HEAD = re.compile(
    rb'\s*\{\s*(?:"kind"\s*:\s*"AdmissionReview"\s*,\s*)?'
    rb'"apiVersion"\s*:\s*"(?P<version>admission\.k8s\.io/v1(?:beta1)?)"\s*,\s*'
    rb'(?:"kind"\s*:\s*"AdmissionReview"\s*,\s*)?"request"\s*:\s*\{\s*"uid"\s*:\s*"(?P<uid>[\w.-]+)"',
    re.ASCII,
)
_decode_loose = msgspec.json.Decoder(_Loose).decode
_decode_loose_request = msgspec.json.Decoder(_LooseRequest).decode
_decode_text = msgspec.json.Decoder(str).decode


def identify(body: bytes) -> tuple[str, str]:
    """The (apiVersion, uid) that an answer to a broken review can still echo; v1 and "" where they cannot be read.

    A document that breaks off or is not JSON further on (too large, nested too deeply) is looked at from its beginning:
    API servers write kind and apiVersion first, then the request, and its uid before everything else.
    """
    try:
        loose = _decode_loose(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        head = _HEAD.match(body[:_HEAD_BYTES])
        return (head["version"].decode(), head["uid"].decode()) if head else (VERSIONS[0], "")
    version = _text(loose.api_version)
    try:
        uid = _text(_decode_loose_request(loose.request).uid)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        uid = ""
    return version if version in VERSIONS else VERSIONS[0], uid


def _text(raw: msgspec.Raw) -> str:
    """The text that this is; "" for any other value."""
    try:
        return _decode_text(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def encode(decision: Decision, *, api_version: str, uid: str) -> bytes:
    """The answering AdmissionReview, of the version that asked.

    A patch is present only where there are operations, a status only for denials and messages.
    """
    return b"".join((_BEGIN[api_version], encode_json(uid), decision.encoded or _rest(decision)))


def encoded(decision: Decision) -> Decision:
    """The same decision, which is encoded once for all reviews that share it."""
    return msgspec.structs.replace(decision, encoded=_rest(decision))


def _rest(decision: Decision) -> bytes:
    """The answer behind the uid."""
    response: dict[str, object] = {"allowed": decision.allowed}
    if not decision.allowed:
        response["status"] = {
            "status": "Failure",
            "message": decision.message,
            "reason": decision.reason,
            "code": decision.code,
        }
    elif decision.message:
        response["status"] = {"message": decision.message}
    if decision.operations:
        # msgspec writes bytes as base64, as the API wants them.
        response |= {"patchType": "JSONPatch", "patch": encode_json(decision.operations)}
    if decision.warnings:
        response["warnings"] = decision.warnings
    if decision.audit_annotations:
        response["auditAnnotations"] = decision.audit_annotations
    return b",%b}}" % encode_json(response)[1:-1]


_BEGIN = {
    version: b'{"apiVersion":"%b","kind":"%b","response":{"uid":' % (version.encode(), KIND.encode())
    for version in VERSIONS
}
"""The answer up to the uid, by version."""


def home_of(request: Request) -> str:
    """The namespace whose objects the answer may name, "" for none."""
    return request.namespace if request.proven else ""


def may_name(key: Key, home: str) -> bool:
    """Whether an answer may name the object, which is in a namespace."""
    return bool(home) and key[0] == home


def named(kind: str, key: Key, home: str) -> str:
    """One object: "Pod ns/p", or "a Pod of another namespace"."""
    return f"{kind} {'/'.join(key)}" if may_name(key, home) else f"a {kind} of {_ELSEWHERE}"


def counted(kind: str, count: int) -> str:
    """Objects that an answer may not name: "1 Pod of another namespace", "2 Pods of other namespaces"."""
    return f"{several(count, kind)} of {_ELSEWHERE if count == 1 else 'other namespaces'}"


def read_or_deny(read: Callable[[], T], *, reason: str) -> T:
    """What `read` returns. Raises Denied (code 400) where the object has values of other types than its kind has.

    An API server checks the types before it asks. A review that is written by hand can have any.
    """
    try:
        return read()
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
        fault = f"the object cannot be read: want the fields and types of its kind: {type(error).__name__}: {error}"
        raise Denied(fault, reason=reason, code=400) from error
