"""The downward-API volume `podnetinfo`, mounted at /etc/podnetinfo in every app container. Pure.

It shows the Pod its labels, its annotations (with the network status) and its huge pages. What the Pod brings itself
is never replaced: a clash stays as it is, and there is a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import methodcaller

from app.admission.chain import MutationPlan, audit_text
from app.admission.patch import Patch, Steps
from app.admission.pods import Container, Pod, Quantity, Volume
from app.kube import quantity
from app.networks.device_requests import Target
from app.text import quoted
from app.wire import JSON

VOLUME = "podnetinfo"
MOUNT_PATH = "/etc/podnetinfo"
CONTAINER_NAME = "CONTAINER_NAME"
_HUGEPAGES = "hugepages-"
_ALIKE = 16
"""Containers; Pods with more of them share no plans, so that these are small."""
_Found = tuple[int, Volume] | None
"""The Pod's own volume of our name, with its index."""


def plan_podnetinfo(pod: Pod, plan: MutationPlan, *, target: Target, hugepages: bool, reason: str) -> int:
    """Plan the volume, with files for huge pages where that is turned on, and its mounts.

    App containers have it, and the `target` of the resources where it is a sidecar.
    Returns the number of volumes and mounts touched.
    """
    existing = next(((index, volume) for index, volume in enumerate(pod.spec.volumes) if volume.name == VOLUME), None)
    if existing is not None and existing[1].downward_api is None:
        plan.warnings.append(
            f"volume {VOLUME} is not a downward API volume: it is left as it is, and network information is not "
            "mounted; rename it to get that"
        )
        return 0
    files = _plan_hugepages(pod, plan) if hugepages else []
    touched = 0
    for index in range(len(pod.spec.containers)):
        touched += _plan_mount(pod, Target("containers", index), plan, reason)
    if target.kind != "containers":
        touched += _plan_mount(pod, target, plan, reason)
    touched += _plan_volume(pod, existing, files, plan, reason)
    if touched:
        plan.count("volume", touched)
    return touched


def mounts_shape(pod: Pod, *, hugepages: bool) -> tuple[object, ...] | None:
    """What the plan depends on, where all containers get the mount, and the Pod a volume without files of its own.

    None where anything of ours, or in its place, is there already, and where there are many containers.
    """
    spec = pod.spec
    if len(spec.containers) > _ALIKE:
        return None
    for volume in spec.volumes:
        if volume.name == VOLUME:
            return None
    mounted = []
    for container in spec.containers:
        for mount in container.volume_mounts:
            if mount.name == VOLUME or MOUNT_PATH in mount.mount_path:
                return None
        if container.volume_devices or (hugepages and _names_pages(container)):
            return None
        mounted.append(bool(container.volume_mounts))
    return bool(spec.volumes), bool(pod.metadata.labels), *mounted


def _plan_mount(pod: Pod, holder: Target, plan: MutationPlan, reason: str) -> int:
    container = holder.of(pod)
    for mount in container.volume_mounts:
        if mount.name == VOLUME:
            return 0
        # The API server compares paths as text; the node would also let one mount hide the other.
        if mount.mount_path.rstrip("/") == MOUNT_PATH:
            return _warn_clash(container, f"volume {quoted(mount.name)}", plan)
    for device in container.volume_devices:
        if device.device_path.rstrip("/") == MOUNT_PATH:
            return _warn_clash(container, f"block device {quoted(device.name)}", plan)
    plan.patch.extend(_mount(holder, present=bool(container.volume_mounts)), reason=reason)
    return 1


@lru_cache(maxsize=256)
def _mount(holder: Target, *, present: bool) -> Steps:
    """Our mount in a container, which has mounts already where `present`; shared, as operations are only read."""
    patch = Patch()
    path = f"/spec/{holder.kind}/{holder.place}/volumeMounts"
    patch.ensure(path, [], present=present, reason="")
    patch.add(f"{path}/-", {"name": VOLUME, "readOnly": True, "mountPath": MOUNT_PATH}, reason="")
    return patch.steps()


def _warn_clash(container: Container, what: str, plan: MutationPlan) -> int:
    plan.warnings.append(
        f"container {quoted(container.name)} has {what} at {MOUNT_PATH}: network information is not mounted there"
    )
    return 0


def _plan_volume(pod: Pod, found: _Found, files: Sequence[JSON], plan: MutationPlan, reason: str) -> int:
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


def _plan_hugepages(pod: Pod, plan: MutationPlan) -> list[JSON]:
    """The downward-API items for every amount of huge pages that an app container requests or is limited to.

    A file holds the amount in MiB; requests come before limits, sizes are sorted. CONTAINER_NAME is planned for each
    container with files, so that it finds its own. An existing variable of that name stays; where its value differs,
    the user is warned.
    """
    files: list[JSON] = []
    planned: list[str] = []
    for index, container in enumerate(pod.spec.containers):
        own = _files(container)
        if own:
            files += own
            planned += _plan_name(index, container, plan)
    if planned:
        plan.count("env", len(planned))
        plan.audit["env"] = audit_text(f"{CONTAINER_NAME} for huge pages of container {name}" for name in planned)
    return files


def _plan_name(index: int, container: Container, plan: MutationPlan) -> list[str]:
    """The container's name where its variable was planned."""
    for env in container.env:
        if env.name == CONTAINER_NAME:
            if env.value != container.name:
                plan.warnings.append(
                    f"container {quoted(container.name)} sets {CONTAINER_NAME} itself: it stays, "
                    "although the names of its huge page files end in the container's name"
                )
            return []
    reason = f"huge pages of container {quoted(container.name)}"
    path = f"/spec/containers/{index}/env"
    plan.patch.ensure(path, [], present=bool(container.env), reason=reason)
    plan.patch.add(f"{path}/-", {"name": CONTAINER_NAME, "value": container.name}, reason=reason)
    return [quoted(container.name)]


def _names_pages(container: Container) -> bool:
    resources = container.resources
    return resources is not None and any(map(_is_pages, (*resources.requests, *resources.limits)))


_is_pages = methodcaller("startswith", _HUGEPAGES)


def _files(container: Container) -> list[JSON]:
    resources = container.resources
    if resources is None or not _names_pages(container):
        return []
    sides = (("requests", "request", resources.requests), ("limits", "limit", resources.limits))
    return [
        {
            "path": f"hugepages_{name.removeprefix(_HUGEPAGES).replace('i', '')}_{word}_{container.name}",
            "resourceFieldRef": {"containerName": container.name, "resource": f"{side}.{name}", "divisor": "1Mi"},
        }
        for side, word, amounts in sides
        for name in sorted(amounts)
        if len(name) > len(_HUGEPAGES) and name.startswith(_HUGEPAGES) and _is_some(amounts[name])
    ]


@lru_cache(maxsize=1024)
def _is_some(amount: Quantity) -> bool:
    try:
        return quantity.parse(amount) != 0
    except ValueError:
        return False  # the API server refuses the Pod and says why
