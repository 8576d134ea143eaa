"""Validation of the volumes and devices that a container uses, in the API server's words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from app.kinds.fielderrors import Field
from app.kinds.name_syntax import descending_path_faults
from app.wire import JSON

_BLOCK_KINDS = frozenset({"persistentVolumeClaim", "ephemeral"})


def check_mounts(container: Field, volumes: Mapping[str | None, JSON]) -> None:
    """The volumes that are mounted and the devices that are used, each with a name and a path of its own.

    `volumes` are those of the Pod by name.
    """
    devices = _paths(container, "volumeDevices", "devicePath")
    mounts = _paths(container, "volumeMounts", "mountPath")
    privileged = bool((container.value.get("securityContext") or {}).get("privileged"))
    places: set[str] = set()
    for mount in container.each("volumeMounts"):
        if mount.required("name") and mount.text("name") not in volumes:
            mount.fault("name", "NotFound")
        place = mount.text("mountPath")
        if mount.required("mountPath") and place in places:
            mount.fault("mountPath", "Invalid", "must be unique")
        places.add(place)
        _refuse_overlap(mount, "mountPath", devices, "volumeDevices")
        _check_options(mount, privileged=privileged)
    _check_devices(container, volumes, mounts)


def _paths(container: Field, field: str, path: str) -> dict[str, str]:
    """The path by name."""
    entries = container.value.get(field) or []
    return {(entry or {}).get("name") or "": (entry or {}).get(path) or "" for entry in entries}


def _refuse_overlap(entry: Field, path: str, others: Mapping[str, str], field: str) -> None:
    if entry.text("name") in others:
        entry.fault("name", "Invalid", f"must not already exist in {field}", entry.text("name"))
    if entry.text(path) in others.values():
        entry.fault(path, "Invalid", f"must not already exist as a path in {field}", entry.text(path))


def _check_options(mount: Field, *, privileged: bool) -> None:
    # The server leaves the index out of these paths; with it one finds the mount.
    mount.syntax("subPath", descending_path_faults)
    if mount.text("subPathExpr") and mount.text("subPath"):
        mount.fault("subPathExpr", "Invalid", "subPathExpr and subPath are mutually exclusive")
    mount.syntax("subPathExpr", descending_path_faults)
    mount.one_of("mountPropagation", ("Bidirectional", "HostToContainer", "None"), optional=True)
    if mount.value.get("mountPropagation") == "Bidirectional" and not privileged:
        text = "Bidirectional mount propagation is available only to privileged containers"
        mount.fault("mountPropagation", "Forbidden", text)
    mount.one_of("recursiveReadOnly", ("Disabled", "Enabled", "IfPossible"), optional=True)
    if mount.text("recursiveReadOnly") in ("Enabled", "IfPossible"):
        if not mount.value.get("readOnly"):
            mount.fault("recursiveReadOnly", "Forbidden", "may only be specified when readOnly is true")
        if mount.value.get("mountPropagation", "None") != "None":
            text = "may only be specified when mountPropagation is None or not specified"
            mount.fault("recursiveReadOnly", "Forbidden", text)


def _check_devices(container: Field, volumes: Mapping[str | None, JSON], mounts: Mapping[str, str]) -> None:
    names: set[str] = set()
    paths: set[str] = set()
    for device in container.each("volumeDevices"):
        name, path = device.text("name"), device.text("devicePath")
        for field, seen in (("name", names), ("devicePath", paths)):
            if device.required(field) and device.text(field) in seen:
                device.fault(field, "Invalid", "must be unique")
            seen.add(device.text(field))
        if name not in volumes:
            device.fault("name", "NotFound", "", name)
        elif not volumes[name].keys() & _BLOCK_KINDS:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            device.fault("name", "Invalid", text, name)
        if ".." in path.split("/"):
            device.fault("devicePath", "Invalid", "can not contain backsteps ('..')")
        _refuse_overlap(device, "devicePath", mounts, "volumeMounts")
