"""What an update of an AppWrapper may not change, and which changes decide what runs, and where. Pure.

Objects are compared by what they mean: the order of members, members that are null, and 1 for 1.0 make no difference.
Texts are compared as they are written, so quantities as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.appwrappers.admission.names import MAX_EXEC_TIME, PREBUILT, mapping
from app.appwrappers.model import CREATOR, QUEUE_NAME, USER, USER_ID, queue_of
from app.kube.owners import controller_of
from app.pace import step
from app.wire import JSON, encode_json, encode_sorted

_IMMUTABLE = "attempt to change immutable field"
_KUEUE = "kueue.x-k8s.io"


SUSPEND, POD_SETS, POD_SET_INFOS = "spec.suspend", "spec.components[].podSets", "spec.components[].podSetInfos"
OWNER = "metadata.ownerReferences"


def update_problems(new: JSON, old: JSON) -> Iterator[str]:
    """All immutable fields that differ, each with what it is to stay."""
    after, before = mapping(new, "spec"), mapping(old, "spec")
    if (after.get("managedBy") or None) != (before.get("managedBy") or None):
        yield f"spec.managedBy: {_IMMUTABLE}: want {before.get('managedBy')!r}, got {after.get('managedBy')!r}"
    yield from _labels(mapping(new, "metadata"), mapping(old, "metadata"), running=not after.get("suspend"))
    components, earlier = _objects(after.get("components")), _objects(before.get("components"))
    if len(components) != len(earlier):
        yield f"spec.components: {_IMMUTABLE}: want {len(earlier)} components, got {len(components)}"
        return
    for index, (one, was) in enumerate(zip(components, earlier, strict=True)):
        step()
        yield from _component(one, was, f"spec.components[{index}]")


def decided_by_queue(new: JSON, old: JSON) -> Iterator[str]:
    """The fields by which one with a queue passes by the queue; none without a queue.

    An `old` one that is empty stands for one that waits.
    """
    if not (queue_of(new) or queue_of(old)):
        return
    if bool(mapping(new, "spec").get("suspend")) != (bool(mapping(old, "spec").get("suspend")) if old else True):
        yield SUSPEND
    if not same(_of_components(new, "podSetInfos"), _of_components(old, "podSetInfos")):
        yield POD_SET_INFOS
    if queue_of(old) and not queue_of(new):
        yield f"metadata.labels[{QUEUE_NAME}]"
    if old and _gains_owner(new, old):
        yield OWNER


def decides_what_runs(new: JSON, old: JSON) -> Iterator[str]:
    """All fields that differ and decide whether components are created, with what, and where; templates never change.

    What Kueue reads has keys of its domain. Annotations for retries, graces and the like decide nothing of that.
    """
    if bool(mapping(new, "spec").get("suspend")) != bool(mapping(old, "spec").get("suspend")):
        yield SUSPEND
    for path, field in ((POD_SETS, "podSets"), (POD_SET_INFOS, "podSetInfos")):
        if not same(_of_components(new, field), _of_components(old, field)):
            yield path
    for section in ("labels", "annotations"):
        after, before = (mapping(mapping(one, "metadata"), section) for one in (new, old))
        for key in sorted({*after, *before}):
            if _is_of_kueue(key) and (after.get(key) or "") != (before.get(key) or ""):
                yield f"metadata.{section}[{key}]"
    if _gains_owner(new, old):
        yield OWNER


def _of_components(obj: JSON, field: str) -> list[Any]:
    """The values of a field, without those that are empty at the end."""
    found = [one.get(field) or None for one in _objects(mapping(obj, "spec").get("components"))]
    while found and found[-1] is None:
        found.pop()
    return found


def _gains_owner(new: JSON, old: JSON) -> bool:
    """Whether it belongs to another object: Kueue may take it for a part of that. One without an owner waits itself."""
    after, before = (controller_of(mapping(one, "metadata")).get("uid") for one in (new, old))
    return bool(after) and after != before


def _is_of_kueue(key: str) -> bool:
    domain = key.partition("/")[0]
    return domain == _KUEUE or domain.endswith(f".{_KUEUE}")


def _labels(new: JSON, old: JSON, *, running: bool) -> Iterator[str]:
    after, before = mapping(new, "labels"), mapping(old, "labels")
    fixed = (USER, USER_ID, *((QUEUE_NAME, MAX_EXEC_TIME, PREBUILT) if running else ()))
    for name in fixed:
        # An empty label is none, as Kueue reads its own.
        if (after.get(name) or "") != (before.get(name) or ""):
            why = "" if name in (USER, USER_ID) else "; suspend the AppWrapper first"
            yield f"metadata.labels[{name}]: {_IMMUTABLE}: want {before.get(name)!r}, got {after.get(name)!r}{why}"
    if mapping(new, "annotations").get(CREATOR) != mapping(old, "annotations").get(CREATOR):
        yield f"metadata.annotations[{CREATOR}]: {_IMMUTABLE}: Berth alone writes it"


def _component(new: JSON, old: JSON, path: str) -> Iterator[str]:
    if not same(new.get("template"), old.get("template")):
        yield f"{path}.template: {_IMMUTABLE}: create another AppWrapper instead"
    after, before = _objects(new.get("podSets")), _objects(old.get("podSets"))
    if len(after) != len(before):
        yield f"{path}.podSets: {_IMMUTABLE}: want {len(before)} podSets, got {len(after)}"
        return
    for index, (one, was) in enumerate(zip(after, before, strict=True)):
        step()
        if _replicas(one) != _replicas(was):
            yield f"{path}.podSets[{index}].replicas: {_IMMUTABLE}: want {_replicas(was)}, got {_replicas(one)}"
        if one.get("path") != was.get("path"):
            yield f"{path}.podSets[{index}].path: {_IMMUTABLE}: want {was.get('path')!r}, got {one.get('path')!r}"


def _objects(value: Any) -> list[JSON]:
    """The objects of a list; the schema lets no others be stored."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _replicas(pod_set: JSON) -> Any:
    found = pod_set.get("replicas")
    return 1 if found is None else found


def same(new: Any, old: Any) -> bool:
    """Whether two values mean the same; what is nested hundreds of levels deep has to be written alike."""
    if encode_json(new) == encode_json(old):
        return True
    try:
        return encode_sorted(_plain(new)) == encode_sorted(_plain(old))
    except RecursionError:
        return False


def _plain(value: Any) -> Any:
    """The value without members that are null, and with 1 for 1.0."""
    if isinstance(value, dict):
        step(1 + len(value))
        return {key: _plain(below) for key, below in value.items() if below is not None}
    if isinstance(value, list):
        step(1 + len(value))
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
