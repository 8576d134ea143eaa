"""Owner references: which object is the controller of another. Pure."""

from __future__ import annotations

from app.kube.resources import Resource
from app.wire import JSON


def controller_of(metadata: JSON) -> JSON:
    """The owner reference of the controller, empty where the object has none; `metadata` may be unchecked JSON."""
    owners = metadata.get("ownerReferences")
    listed = owners if isinstance(owners, list) else ()
    return next((one for one in listed if isinstance(one, dict) and one.get("controller")), {})


def controller_reference(resource: Resource, name: str, uid: str) -> JSON:
    """The owner reference that makes an object of this resource the controller of what carries the reference.

    It does not block the deletion of the controller: that takes the right to change the finalizers of the controller.
    """
    return {"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid, "controller": True}
