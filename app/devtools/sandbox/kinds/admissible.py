"""Admission as a write meets it: the server's own rules about namespaces, Pods and Nodes, then webhooks.

Owns the order (own rules, mutating webhooks, later validating ones) and the translation of refusals into answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cel.matchconditions import Attributes, Operation, UserInfo
from app.devtools.sandbox.api.call import copy_json
from app.devtools.sandbox.api.failures import StatusError, forbidden, not_found
from app.devtools.sandbox.webhooks.admission import AdmissionRejected
from app.kinds.requests import amounts_of

if TYPE_CHECKING:
    from app.devtools.sandbox.access.auth import User
    from app.devtools.sandbox.api.call import Call
    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

_OPTION_KINDS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_PROTECTED = frozenset({"default", "kube-system", "kube-public"})
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTION_SECONDS = 300
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def user_info(user: User) -> UserInfo:
    return UserInfo(
        user.username, user.uid, list(user.groups), {key: list(values) for key, values in user.extra.items()}
    )


async def mutate(
    state: ClusterState,
    call: Call,
    operation: Operation,
    obj: JSON,
    old: JSON | None,
    *,
    kind: str = "",
    name: str = "",
) -> JSON:
    """The object after the server's own rules and all mutating webhooks; raises StatusError where one refuses."""
    if operation == "CREATE" and not call.subresource:
        check_namespace(state, call)
        if obj["kind"] == "Node" and not call.resource.custom:
            _add_taint(obj["spec"])
        if obj["kind"] == "Pod":
            _add_tolerations(obj["spec"])
            _set_priority(state, call, obj)
            _set_runtime(state, call, obj)
    elif operation == "UPDATE" and old is not None and obj["kind"] == "Pod" and not call.subresource:
        _add_tolerations(obj["spec"])
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                obj["spec"].setdefault(field, old["spec"][field])
    attributes = _attributes(call, operation, old, kind=kind or obj["kind"], name=name)
    # A webhook's caller may keep what it was given, and stored objects are never changed: it gets a copy.
    try:
        changed, warnings = await state.webhooks.mutate(attributes, copy_json(obj))
    except AdmissionRejected as refusal:
        raise StatusError(refusal.status) from refusal
    call.warnings += warnings
    return changed


async def validate(
    state: ClusterState,
    call: Call,
    operation: Operation,
    obj: JSON | None,
    old: JSON | None,
    *,
    kind: str = "",
    name: str = "",
    options: JSON | None = None,
) -> None:
    """All validating webhooks; raises StatusError where one refuses."""
    attributes = _attributes(call, operation, old, kind=kind or (obj or old or {})["kind"], name=name, options=options)
    try:
        call.warnings += await state.webhooks.validate(attributes, obj)
    except AdmissionRejected as refusal:
        raise StatusError(refusal.status) from refusal


async def admit_delete(state: ClusterState, call: Call, old: JSON, options: JSON) -> None:
    """Both phases for a deletion; raises StatusError where one refuses."""
    name = old["metadata"]["name"]
    if old["kind"] == "Namespace" and name in _PROTECTED:
        raise forbidden("", "namespaces", name, "this namespace may not be deleted")
    attributes = _attributes(call, "DELETE", old, kind=old["kind"], name=name, options=options)
    try:
        _, warnings = await state.webhooks.mutate(attributes, None)
        warnings += await state.webhooks.validate(attributes, None)
    except AdmissionRejected as refusal:
        raise StatusError(refusal.status) from refusal
    call.warnings += warnings


def check_namespace(state: ClusterState, call: Call) -> None:
    """Nothing is created in a namespace that is missing or on its way out."""
    if not call.resource.namespaced:
        return
    namespace = state.storage.get(("", "namespaces"), "", call.namespace)
    if namespace is None:
        raise not_found("", "namespaces", call.namespace)
    if namespace["metadata"].get("deletionTimestamp"):
        message = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        error = forbidden(call.resource.group, call.resource.plural, call.name, message)
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {call.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        error.status["details"]["causes"] = [cause]
        raise error


def _add_taint(spec: JSON) -> None:
    """Taint a new node, so that no Pod is scheduled to it until a controller has seen it ready."""
    taints = spec.get("taints") or []
    if not any((taint.get("key"), taint.get("effect")) == (_NOT_READY[0], "NoSchedule") for taint in taints):
        spec["taints"] = [*taints, {"key": _NOT_READY[0], "effect": "NoSchedule"}]


def _add_tolerations(spec: JSON) -> None:
    """Every Pod stays for a while on a node that is in trouble, unless it says otherwise."""
    tolerations = list(spec.get("tolerations") or [])
    for key in _NOT_READY:
        if not any(_covers(entry, key) for entry in tolerations):
            entry = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTION_SECONDS}
            tolerations.append(entry)
    spec["tolerations"] = tolerations


def _covers(toleration: JSON, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _set_priority(state: ClusterState, call: Call, pod: JSON) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    priority, policy = 0, "PreemptLowerPriority"
    if name:
        found = state.storage.get(("scheduling.k8s.io", "priorityclasses"), "", name)
        if found is None and name not in _SYSTEM_PRIORITIES:
            raise forbidden(
                "", "pods", call.name or pod["metadata"].get("name", ""), f"no PriorityClass with name {name} was found"
            )
        priority = found["value"] if found else _SYSTEM_PRIORITIES[name]
        policy = (found or {}).get("preemptionPolicy") or policy
    given = spec.get("priority")
    if given is not None and given != priority:
        raise forbidden(
            "",
            "pods",
            pod["metadata"].get("name", ""),
            f"the integer value of priority ({given}) must not be "
            f"provided in pod spec; priority admission controller computed {priority} from the given "
            "PriorityClass name",
        )
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", policy)


def _set_runtime(state: ClusterState, call: Call, pod: JSON) -> None:
    """What a RuntimeClass adds to its Pods: the overhead, and where they may run."""
    spec, name = pod["spec"], call.name or pod["metadata"].get("name", "")
    found: JSON = {}
    if wanted := spec.get("runtimeClassName"):
        stored = state.storage.get(("node.k8s.io", "runtimeclasses"), "", wanted)
        if stored is None:
            raise forbidden("", "pods", name, f'pod rejected: RuntimeClass "{wanted}" not found')
        found = stored
    overhead = (found.get("overhead") or {}).get("podFixed") or {}
    if spec.get("overhead") and not overhead:
        message = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden("", "pods", name, f"pod rejected: {message}")
    if overhead and amounts_of(spec.get("overhead") or overhead) != amounts_of(overhead):
        raise forbidden("", "pods", name, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = copy_json(overhead)
    scheduling = copy_json(found.get("scheduling") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        has = (spec.get("nodeSelector") or {}).get(key, value)
        if has != value:
            places = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {has}"
            raise forbidden("", "pods", name, f"conflict: {places}")
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), key: value}
    spec["tolerations"] += [one for one in scheduling.get("tolerations") or () if one not in spec["tolerations"]]


def _attributes(
    call: Call, operation: Operation, old: JSON | None, *, kind: str, name: str, options: JSON | None = None
) -> Attributes:
    resource = call.resource
    detail: JSON = {"kind": _OPTION_KINDS.get(operation, "CreateOptions"), "apiVersion": "meta.k8s.io/v1"}
    if "patch" in call.verb and operation != "DELETE":
        detail["kind"] = "PatchOptions"
    if call.dry_run:
        detail["dryRun"] = ["All"]
    for field in ("fieldManager", "fieldValidation"):
        if call.query.get(field) and operation != "DELETE":
            detail[field] = call.query[field]
    detail.update({key: value for key, value in (options or {}).items() if key not in ("kind", "apiVersion")})
    return Attributes(
        operation=operation,
        group=resource.group,
        version=resource.version,
        kind=kind,
        resource=resource.plural,
        subresource=call.subresource,
        namespace=call.namespace if resource.namespaced or kind != "Namespace" else name or call.name,
        name=name or call.name,
        dry_run=call.dry_run,
        user=user_info(call.user),
        old_object=old,
        options=detail,
    )
