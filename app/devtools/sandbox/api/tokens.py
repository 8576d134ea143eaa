"""`token` of service accounts: what authenticates as one until it expires. It is computed, not stored."""

from __future__ import annotations

import secrets
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from app.devtools.sandbox.access.auth import API_AUDIENCE, AUTHENTICATED, NODE_NAME, User
from app.devtools.sandbox.api.call import Call, Reply, decode_object, json_reply
from app.devtools.sandbox.api.failures import bad_request, conflict, invalid, not_found
from app.devtools.sandbox.api.reading import stored
from app.kinds.fielderrors import FieldError
from app.kube.names import service_account_groups, service_account_user
from app.text import stamp

if TYPE_CHECKING:
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

_SHORTEST = 600
"""Seconds that a token lives at least."""
_LONGEST = 1 << 32
_EXTRA = "authentication.kubernetes.io"
_BOUND = {"Node": "nodes", "Pod": "pods", "Secret": "secrets"}
"""The kinds that a token may be bound to."""


async def token(state: ClusterState, call: Call) -> Reply:
    """POST of a TokenRequest: a token that authenticates as the service account until it expires.

    One that is bound to a Pod or Node says so in the user's extra values. It does not end with that object.
    """
    sent = decode_object(call)
    account = stored(state, call)
    spec = sent.get("spec") or {}
    if not isinstance(spec, dict):
        raise bad_request("TokenRequest: spec has to be an object")
    seconds = _seconds(spec)
    reference = spec.get("boundObjectRef")
    if reference is not None and not isinstance(reference, dict):
        raise bad_request("TokenRequest: spec.boundObjectRef has to be an object")
    metadata = account["metadata"]
    name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
    extra: dict[str, tuple[str, ...]] = {f"{_EXTRA}/credential-id": (f"JTI={uuid.uuid4()}",)}
    if reference:
        extra |= _bound_to(state, call, reference)
    groups = (*service_account_groups(namespace), AUTHENTICATED)
    audiences = _audiences(spec)
    value = secrets.token_urlsafe(32)
    ends = datetime.now(UTC) + timedelta(seconds=seconds)
    if not call.dry_run:
        user = User(service_account_user(namespace, name), uid, groups, extra, ends, audiences)
        state.authenticator.tokens[value] = user
    answer: JSON = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": state.storage.now()},
        "spec": {
            "audiences": list(audiences),
            "expirationSeconds": seconds,
            "boundObjectRef": reference,
        },
        "status": {"token": value, "expirationTimestamp": stamp(ends)},
    }
    return json_reply(answer, status=201)


def _seconds(spec: JSON) -> int:
    seconds = 3600 if spec.get("expirationSeconds") is None else spec["expirationSeconds"]
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise bad_request("TokenRequest: spec.expirationSeconds has to be an integer")
    if not _SHORTEST <= seconds <= _LONGEST:
        text = "less than 10 minutes" if seconds < _SHORTEST else "larger than 2^32 seconds"
        text = f"may not specify a duration {text}"
        fault = FieldError("spec.expirationSeconds", "Invalid", text, seconds)
        raise invalid("authentication.k8s.io", "TokenRequest", "", [fault])
    return seconds


def _audiences(spec: JSON) -> tuple[str, ...]:
    found = spec.get("audiences")
    if found is not None and not (isinstance(found, list) and all(isinstance(one, str) for one in found)):
        raise bad_request("TokenRequest: spec.audiences has to be a list of strings")
    return tuple(found or (API_AUDIENCE,))


def _bound_to(state: ClusterState, call: Call, reference: JSON) -> dict[str, tuple[str, ...]]:
    """The extra values of a token that is bound to this object.

    Raises StatusError 400 for another kind or another account's Pod, 404 and 409 where the object is not there.
    """
    kind, version, name = (str(reference.get(field) or "") for field in ("kind", "apiVersion", "name"))
    plural = _BOUND.get(kind)
    if plural is None or version != "v1":
        shown = version if "/" in version else f"/{version}"
        raise bad_request(f"cannot bind token to object of type {shown}, Kind={kind}")
    found = state.storage.get(("", plural), "" if kind == "Node" else call.namespace, name)
    if found is None:
        raise not_found("", plural, name)
    if kind == "Pod" and found["spec"].get("serviceAccountName") != call.name:
        text = f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
        raise bad_request(text)
    if reference.get("uid") not in (None, "", found["metadata"]["uid"]):
        text = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise conflict("", kind, name, text)
    if kind == "Secret":
        return {}
    return _identified(kind.lower(), found) | (_node_of(state, found) if kind == "Pod" else {})


def _node_of(state: ClusterState, pod: JSON) -> dict[str, tuple[str, ...]]:
    """The node of a Pod; without its UID where there is no such Node."""
    name = pod["spec"].get("nodeName")
    if not name:
        return {}
    node = state.storage.get(("", "nodes"), "", name)
    return {NODE_NAME: (name,)} if node is None else _identified("node", node)


def _identified(kind: str, obj: JSON) -> dict[str, tuple[str, ...]]:
    return {f"{_EXTRA}/{kind}-{field}": (obj["metadata"][field],) for field in ("name", "uid")}
