"""`token` of service accounts: what authenticates as one until it expires. It is computed, not stored."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from app.devtools.sandbox.access.auth import AUTHENTICATED, User
from app.devtools.sandbox.api.call import Call, Reply, decode_object, json_reply
from app.devtools.sandbox.api.failures import bad_request, invalid
from app.devtools.sandbox.api.reading import stored
from app.kinds.fielderrors import FieldError
from app.kube.names import service_account_groups, service_account_user
from app.text import stamp

if TYPE_CHECKING:
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

_SHORTEST = 600
"""Seconds that a token lives at least."""


async def token(state: ClusterState, call: Call) -> Reply:
    """POST of a TokenRequest: a token that authenticates as the service account until it expires."""
    sent = decode_object(call)
    account = stored(state, call)
    spec = sent.get("spec") or {}
    if not isinstance(spec, dict):
        raise bad_request("TokenRequest: spec has to be an object")
    seconds = 3600 if spec.get("expirationSeconds") is None else spec["expirationSeconds"]
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise bad_request("TokenRequest: spec.expirationSeconds has to be an integer")
    if seconds < _SHORTEST:
        text = "may not specify a duration less than 10 minutes"
        fault = FieldError("spec.expirationSeconds", "Invalid", text, seconds)
        raise invalid("authentication.k8s.io", "TokenRequest", "", [fault])
    metadata = account["metadata"]
    name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
    groups = (*service_account_groups(namespace), AUTHENTICATED)
    value = secrets.token_urlsafe(32)
    ends = datetime.now(UTC) + timedelta(seconds=seconds)
    if not call.dry_run:
        user = User(service_account_user(namespace, name), uid, groups, expires=ends)
        state.authenticator.tokens[value] = user
    answer: JSON = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": state.storage.now()},
        "spec": {
            "audiences": spec.get("audiences") or ["https://kubernetes.default.svc"],
            "expirationSeconds": seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
        "status": {"token": value, "expirationTimestamp": stamp(ends)},
    }
    return json_reply(answer, status=201)
