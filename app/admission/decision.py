"""The answer to a review: `Decision` to bytes, and what the answer to a broken review still echoes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from app.admission.patch import Operation
from app.admission.review import KIND, VERSIONS
from app.wire import encode_json

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
