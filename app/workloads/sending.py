"""What an agent sends: of a Pod the spec of its Workload, of a UVS object its manifest. Pure."""

from __future__ import annotations

from app.wire import JSON

_FINISHED = ("Succeeded", "Failed")


def counts_as_gone(pod: JSON, *, keep_finished: bool = False) -> bool:
    """Whether a Pod is no workload (any more): it is being deleted, or has finished."""
    finished = (pod.get("status") or {}).get("phase") in _FINISHED
    return bool(pod["metadata"].get("deletionTimestamp")) or (finished and not keep_finished)


def workload_spec(pod: JSON, *, ready: bool) -> JSON:
    """The spec of the Workload of a Pod with a UID; `ready` is its condition."""
    metadata = pod["metadata"]
    return {
        "metadata": {
            "id": metadata["uid"],
            "resourceName": metadata["name"],
            "resourceNamespace": metadata.get("namespace"),
        },
        "state": {
            "nodeName": (pod.get("spec") or {}).get("nodeName"),
            "ready": ready,
            "extra": {"labels": metadata.get("labels"), "annotations": metadata.get("annotations")},
        },
    }


def named_manifest(spec: JSON, name: str) -> JSON:
    """What a UVS object of this spec asks for, under its name. Raises ValueError where the manifest has another."""
    manifest = spec.get("object")
    if not isinstance(manifest, dict):
        raise ValueError("spec.object: want a manifest")  # noqa: TRY004  a fault of the object
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    found = metadata.get("name") or name
    if found != name:
        raise ValueError(f"spec.object.metadata.name: {found!r:.80} must be equal to metadata.name, {name!r}")
    return {**manifest, "metadata": {**metadata, "name": name}}
