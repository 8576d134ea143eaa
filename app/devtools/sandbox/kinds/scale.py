"""The fields that the subresource `scale` shows: where they are, and what they have to be. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.kinds.fielderrors import FieldError

if TYPE_CHECKING:
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.wire import JSON


def scale_of(resource: ApiResource, obj: JSON) -> JSON:
    """The Scale that shows the replicas of an object."""
    custom, (wanted, present, selector) = resource.custom, resource.scale
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = at_path(obj, wanted) or 0
    labels = (obj["spec"].get("selector") or {}).get("matchLabels") or {} if not custom else {}
    text = at_path(obj, selector) if custom else ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in kept if name in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": at_path(obj, present) or 0} | ({"selector": text} if text else {}),
    }


def check_replicas(resource: ApiResource, obj: JSON) -> list[FieldError]:
    """The faults of the fields of a custom resource that are shown."""
    errors: list[FieldError] = []
    for path in resource.scale[:2]:
        value = at_path(obj, path)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            found = {float: "float64", str: "string", bool: "bool", list: "[]interface {}"}.get(type(value))
            shown = value
            if isinstance(value, bool):
                shown = str(value).lower()
            elif isinstance(value, float) and value.is_integer():
                shown = int(value)
            text = (
                f".{path} accessor error: {shown} is of the type {found or 'map[string]interface {}'}, expected int64"
            )
            errors.append(FieldError(f".{path}", "Invalid", text, 0))
        elif value < 0:
            errors.append(FieldError(f".{path}", "Invalid", "should be a non-negative integer", value))
        elif value >= 2**31:
            errors.append(FieldError(f".{path}", "Invalid", f"should be less than or equal to {2**31 - 1}", value))
    return errors


def check_wanted(replicas: int) -> list[FieldError]:
    """The fault of a number of replicas that no built-in kind can have."""
    if replicas >= 0:
        return []
    return [FieldError("spec.replicas", "Invalid", "must be greater than or equal to 0", replicas)]


def at_path(obj: JSON, path: str) -> Any:
    """The value at a path of fields joined by dots; None where there is none."""
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def set_path(obj: JSON, path: str, value: Any) -> None:
    *above, last = path.split(".")
    for name in above:
        obj = obj.setdefault(name, {})
    obj[last] = value
