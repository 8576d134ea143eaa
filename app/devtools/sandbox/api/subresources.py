"""`scale` of workloads and `token` of service accounts: objects of other kinds that are computed, not stored."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from app.devtools.sandbox.access.auth import AUTHENTICATED, User
from app.devtools.sandbox.api import patching
from app.devtools.sandbox.api.call import Call, Reply, copy_json, decode_bounded, decode_object, json_reply
from app.devtools.sandbox.api.failures import bad_request, conflict, invalid, method_not_allowed
from app.devtools.sandbox.api.reading import stored
from app.devtools.sandbox.kinds import admissible
from app.devtools.sandbox.merge.apply import track_update
from app.devtools.sandbox.state import ClusterState
from app.kinds.fielderrors import FieldError
from app.wire import JSON

_SHORTEST = 600
"""Seconds that a token lives at least."""


async def scale(state: ClusterState, call: Call) -> Reply:
    """GET, PUT and PATCH of the number of replicas."""
    resource = call.resource
    old = stored(state, call)
    if call.verb == "get":
        return json_reply(_scale_of(old))
    if call.verb == "update":
        sent = decode_object(call)
    elif call.verb == "patch":
        media = call.content_type.partition(";")[0].strip().lower()
        sent = patching.compute(call, media, decode_bounded(call.body), _scale_of(old))
    else:
        raise method_not_allowed()
    metadata, spec = sent.get("metadata") or {}, sent.get("spec") or {}
    expected = metadata.get("resourceVersion")
    if expected and expected != old["metadata"]["resourceVersion"]:
        raise conflict(resource.group, resource.plural, call.name)
    changed = _scale_of(old)
    changed["spec"] = {"replicas": _replicas(spec)}
    changed = await admissible.mutate(state, call, "UPDATE", changed, _scale_of(old), kind="Scale", name=call.name)
    if _replicas(changed["spec"]) < 0:
        fault = FieldError(
            "spec.replicas", "Invalid", "must be greater than or equal to 0", changed["spec"]["replicas"]
        )
        raise invalid("autoscaling", "Scale", call.name, [fault])
    await admissible.validate(state, call, "UPDATE", changed, _scale_of(old), kind="Scale", name=call.name)
    if call.dry_run or changed["spec"]["replicas"] == old["spec"].get("replicas"):
        return json_reply(changed)
    new = copy_json(stored(state, call))
    new["spec"]["replicas"] = changed["spec"]["replicas"]
    new["metadata"]["generation"] += 1
    new = track_update(
        old,
        new,
        manager=call.manager,
        api_version=resource.api_version,
        now=state.storage.now(),
        subresource="scale",
    )
    return json_reply(_scale_of(state.storage.update(resource.key, new)))


def _scale_of(obj: JSON) -> JSON:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {
            "replicas": status.get("replicas", 0),
            "selector": ",".join(f"{key}={labels[key]}" for key in sorted(labels)),
        },
    }


def _replicas(spec: Any) -> int:
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("Scale: spec.replicas has to be an integer")
    return replicas


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
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    value = secrets.token_urlsafe(32)
    ends = datetime.now(UTC) + timedelta(seconds=seconds)
    if not call.dry_run:
        user = User(f"system:serviceaccount:{namespace}:{name}", uid, groups, expires=ends)
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
        "status": {"token": value, "expirationTimestamp": ends.strftime("%Y-%m-%dT%H:%M:%SZ")},
    }
    return json_reply(answer, status=201)
