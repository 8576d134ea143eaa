"""Workload objects as the controller keeps them: one compact document each, in the form that rules see.

Pure. Kept in memory for every workload of every tenant, so the values that many share (namespaces, node names) are
one string, and the rest is bytes.
"""

from __future__ import annotations

import sys
from typing import Any

from app.kube.names import check_dns_label
from app.wire import JSON, encode_sorted
from app.workloads.model import ORCHESTRATOR, RESOURCE_TYPE, TENANT_NAMESPACE_PREFIX, Workload, workload_name

MAX_DEPTH = 16
"""Levels below `state.extra`; keys are evaluated and values compared recursively."""

_MAPS = ("labels", "annotations")


def project_workload(obj: JSON) -> Workload:
    """The kept form of a stored Workload object; ValueError says what makes it unusable.

    The document has all of `metadata` and `state` that rules may count on: `ready` (false where it is not given),
    `extra.labels` and `extra.annotations` (empty where there are none), and `nodeName` only once there is a node, so
    that Exists tells it. Fields that no version of the API has are left out.
    """
    namespace, name = _text(_map(obj, "metadata"), "namespace"), _text(_map(obj, "metadata"), "name")
    if not namespace.startswith(TENANT_NAMESPACE_PREFIX):
        raise ValueError(f"a Workload belongs into the namespace of a tenant, not {namespace!r}")
    spec = _map(obj, "spec")
    metadata, state = _map(spec, "metadata"), _map(spec, "state")
    workload_id = check_dns_label(_text(metadata, "id"))
    if name != workload_name(workload_id):
        raise ValueError(f"the Workload of id {workload_id!r} must be named {workload_name(workload_id)}, not {name!r}")
    node_name = sys.intern(_text(state, "nodeName"))
    document = {"metadata": _metadata(metadata), "state": _state(state)}
    return Workload(sys.intern(namespace), name, workload_id, node_name, encode_sorted(document))


def _metadata(metadata: JSON) -> JSON:
    resource_type = _text(metadata, "resourceType") or RESOURCE_TYPE
    if resource_type != RESOURCE_TYPE:
        raise ValueError(f"metadata.resourceType: {resource_type!r} is unknown: only {RESOURCE_TYPE}")
    return {
        "id": metadata["id"],
        "orchestrator": _text(metadata, "orchestrator") or ORCHESTRATOR,
        "resourceType": resource_type,
        "resourceName": _text(metadata, "resourceName"),
        "resourceNamespace": _text(metadata, "resourceNamespace"),
    }


def _state(state: JSON) -> JSON:
    ready = state.get("ready") or False
    if not isinstance(ready, bool):
        raise ValueError("state.ready: must be true or false")  # noqa: TRY004 - the promise is ValueError
    extra = dict(_map(state, "extra"))
    for name in _MAPS:
        extra[name] = _map(extra, name)
        if not all(isinstance(value, str) for value in extra[name].values()):
            raise ValueError(f"state.extra.{name}: every value must be a string")
    _check_depth(extra)
    node_name = _text(state, "nodeName")
    return {"ready": ready, "extra": extra} | ({"nodeName": node_name} if node_name else {})


def _check_depth(extra: JSON) -> None:
    level: list[Any] = [extra]
    for _ in range(MAX_DEPTH):
        level = [
            part
            for item in level
            if isinstance(item, dict | list)
            for part in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise ValueError(f"state.extra: nested too deeply: at most {MAX_DEPTH} levels")


def _map(parent: Any, name: str) -> JSON:
    value = parent.get(name) if isinstance(parent, dict) else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name}: must be an object")  # noqa: TRY004 - the promise is ValueError
    return value


def _text(parent: JSON, name: str) -> str:
    value = parent.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name}: must be a string")  # noqa: TRY004 - the promise is ValueError
    return value
