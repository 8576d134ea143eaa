"""The AdmissionReview that goes to a webhook, and what its answer says. Pure but for the fresh uid of each review.

Reads answers as strictly as the API server does: an answer that a real one would not accept is a `BadAnswer` here too.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import jsonpatch

from app.errors import BerthError
from app.wire import JSON, decode_json

if TYPE_CHECKING:
    from app.cel.matchconditions import Attributes
    from app.cel.webhookrules import Target

_VERSIONS = ("v1", "v1beta1")


class BadAnswer(BerthError):
    """The webhook answered something that is no answer to the review."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A well-formed answer; `status` is its `status` field, `patch` the decoded JSON Patch."""

    allowed: bool
    status: JSON
    patch: list[JSON]
    warnings: list[str]


def pick_version(hook: JSON) -> str:
    """The first of the webhook's admissionReviewVersions that the API server speaks."""
    for version in hook.get("admissionReviewVersions") or []:
        if version in _VERSIONS:
            return str(version)
    raise BadAnswer("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def build_review(attributes: Attributes, obj: JSON | None, target: Target, *, version: str) -> JSON:
    """The review in the AdmissionReview version `version`, with the object in the version of `target`."""
    group, kind, resource = attributes.group, attributes.kind, attributes.resource
    user = attributes.user
    user_info: JSON = {
        "username": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": dict(user.extra),
    }
    request: JSON = {
        "uid": str(uuid4()),
        "kind": {"group": group, "version": target.version, "kind": kind},
        "resource": {"group": group, "version": target.version, "resource": resource},
        "subResource": attributes.subresource,
        "requestKind": {"group": group, "version": attributes.version, "kind": kind},
        "requestResource": {"group": group, "version": attributes.version, "resource": resource},
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": {name: value for name, value in user_info.items() if value},
        "object": target.convert(obj) if attributes.operation != "DELETE" else None,
        "oldObject": target.convert(attributes.old_object),
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    for name in ("subResource", "requestSubResource", "name", "namespace"):
        if not request[name]:
            del request[name]
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}


def read_answer(body: bytes, *, uid: str, version: str) -> Verdict:
    """The answer to the review with `uid`; raises `BadAnswer`. v1beta1 asks for less than v1 does."""
    try:
        review: Any = decode_json(body)
    except ValueError as error:
        raise BadAnswer(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(review, dict):
        raise BadAnswer("couldn't get version/kind; json parse error: the answer is not an object")
    response = review.get("response")
    if version == "v1":
        wanted = ("admission.k8s.io/v1", "AdmissionReview")
        if (review.get("apiVersion"), review.get("kind")) != wanted:
            got = f"{review.get('apiVersion', '')}, Kind={review.get('kind', '')}"
            raise BadAnswer(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}")
    if not isinstance(response, dict):
        raise BadAnswer("webhook response was absent")
    if version == "v1" and response.get("uid") != uid:
        raise BadAnswer(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    return Verdict(
        allowed=response.get("allowed") is True,
        status=response.get("status") or response.get("result") or {},
        patch=_read_patch(response, version=version),
        warnings=[str(warning) for warning in response.get("warnings") or []],
    )


def _read_patch(response: JSON, *, version: str) -> list[JSON]:
    patch, kind = response.get("patch"), response.get("patchType")
    if version == "v1":
        if patch and not kind:
            raise BadAnswer("webhook returned response.patch but not response.patchType")
        if kind and not patch:
            raise BadAnswer("webhook returned response.patchType but not response.patch")
    if kind and kind != "JSONPatch":
        raise BadAnswer(f'webhook returned invalid response.patchType of "{kind}"')
    if not patch:
        return []
    try:
        operations: Any = decode_json(base64.b64decode(patch, validate=True))
    except (ValueError, TypeError, binascii.Error) as error:
        raise BadAnswer(f"response.patch is not base64-encoded JSON: {error}") from error
    if not isinstance(operations, list):
        raise BadAnswer("response.patch is not a list of operations")
    return operations


def apply_patch(name: str, patch: list[JSON], obj: JSON | None) -> JSON:
    """`obj` after the webhook's patch; raises `BadAnswer` where it cannot be applied."""
    if obj is None:
        raise BadAnswer(
            f'admission webhook "{name}" attempted to modify the object, which is not supported for this operation'
        )
    try:
        patched: Any = jsonpatch.apply_patch(obj, patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, KeyError, TypeError, ValueError) as error:
        raise BadAnswer(f'admission webhook "{name}": the patch cannot be applied: {error}') from error
    if not isinstance(patched, dict):
        raise BadAnswer(f'admission webhook "{name}": the patch leaves no object')
    return patched
