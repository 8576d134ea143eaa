"""The downward-API volume `podnetinfo`, mounted at /etc/podnetinfo in every app container. Pure.

It shows the Pod its labels, its annotations (with the network status) and its huge pages. What the Pod brings itself
is never replaced: a clash is left as it is, and the user is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from app.admission.chain import Plan
from app.admission.patch import Patch, Steps
from app.admission.pods import Container, Pod, Volume
from app.text import quoted
from app.wire import JSON

VOLUME = "podnetinfo"
MOUNT_PATH = "/etc/podnetinfo"


Found = tuple[int, Volume] | None


def find_volume(pod: Pod) -> Found:
    """The Pod's own volume of our name, with its index."""
    for index, volume in enumerate(pod.spec.volumes):
        if volume.name == VOLUME:
            return index, volume
    return None


def is_foreign(found: Found) -> bool:
    """Whether the Pod's volume of our name is no downward-API volume, so that nothing can be shown in it."""
    return found is not None and found[1].downward_api is None


def plan_podnetinfo(pod: Pod, found: Found, files: Sequence[JSON], plan: Plan, *, reason: str) -> int:
    """Plan the volume with `files` for huge pages, and its mounts; `found` is the Pod's own volume.

    Returns the number of volumes and mounts touched.
    """
    if is_foreign(found):
        plan.warnings.append(
            f"volume {VOLUME} is no downward API volume: it is left as it is, and network information is not mounted; "
            "rename it to get that"
        )
        return 0
    touched = 0
    for index, container in enumerate(pod.spec.containers):
        touched += _plan_mount(index, container, plan, reason)
    touched += _plan_volume(pod, found, files, plan, reason)
    if touched:
        plan.count("volume", touched)
    return touched


def _plan_mount(index: int, container: Container, plan: Plan, reason: str) -> int:
    for mount in container.volume_mounts:
        if mount.name == VOLUME:
            return 0
        # The API server compares paths as text; the node would also let one mount hide the other.
        if mount.mount_path.rstrip("/") == MOUNT_PATH:
            return _warn_clash(container, f"volume {quoted(mount.name)}", plan)
    for device in container.volume_devices:
        if device.device_path.rstrip("/") == MOUNT_PATH:
            return _warn_clash(container, f"block device {quoted(device.name)}", plan)
    plan.patch.extend(_mount(index, present=bool(container.volume_mounts)), reason=reason)
    return 1


@lru_cache(maxsize=256)
def _mount(index: int, *, present: bool) -> Steps:
    """Our mount in a container, which has mounts already where `present`; shared, as operations are only read."""
    patch = Patch()
    path = f"/spec/containers/{index}/volumeMounts"
    patch.ensure(path, [], present=present, reason="")
    patch.add(f"{path}/-", {"name": VOLUME, "readOnly": True, "mountPath": MOUNT_PATH}, reason="")
    return patch.steps()


def _warn_clash(container: Container, what: str, plan: Plan) -> int:
    plan.warnings.append(
        f"container {quoted(container.name)} has {what} at {MOUNT_PATH}: network information is not mounted there"
    )
    return 0


def _plan_volume(pod: Pod, found: Found, files: Sequence[JSON], plan: Plan, reason: str) -> int:
    if found is None and not files:
        steps = _volume(present=bool(pod.spec.volumes), labels=bool(pod.metadata.labels))
        plan.patch.extend(steps, reason=reason)
        return 1
    items = [*_items(labels=bool(pod.metadata.labels)), *files]
    if found is None:
        plan.patch.ensure("/spec/volumes", [], present=bool(pod.spec.volumes), reason=reason)
        plan.patch.add("/spec/volumes/-", {"name": VOLUME, "downwardAPI": {"items": items}}, reason=reason)
        return 1
    index, volume = found
    existing = volume.downward_api.items if volume.downward_api is not None else []
    paths = {item.path for item in existing}
    missing = [item for item in items if item["path"] not in paths]
    base = f"/spec/volumes/{index}/downwardAPI/items"
    for item in missing:
        plan.patch.ensure(base, [], present=bool(existing), reason=reason)
        plan.patch.add(f"{base}/-", item, reason=reason)
    return 1 if missing else 0


def _items(*, labels: bool) -> list[JSON]:
    """The files that every Pod gets; the labels where it has any."""
    annotations: JSON = {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}
    return [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}, annotations] if labels else [annotations]


@lru_cache(maxsize=4)
def _volume(*, present: bool, labels: bool) -> Steps:
    """The volume without huge pages, in a Pod which has volumes already where `present`; shared as `_mount` is."""
    patch = Patch()
    patch.ensure("/spec/volumes", [], present=present, reason="")
    patch.add("/spec/volumes/-", {"name": VOLUME, "downwardAPI": {"items": _items(labels=labels)}}, reason="")
    return patch.steps()
