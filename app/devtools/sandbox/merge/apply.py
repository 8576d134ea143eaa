"""Field ownership: server-side apply, and the managedFields of ordinary writes.

Pure: the caller brings the live object, the clock as text and the merge rules. Ownership arithmetic is in
`fieldsets`, merging in `merging`; here is what they mean together, in the order in which the API server does it:
merge, drop what the manager gave up, find conflicts, record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.devtools.sandbox.merge.fieldsets import Fields, compare, difference, field_set, intersection, members, union
from app.devtools.sandbox.merge.listtypes import MergeKeys
from app.devtools.sandbox.merge.listtypes import merge_keys as built_in_merge_keys
from app.devtools.sandbox.merge.merging import merge_applied, prune_released
from app.errors import BerthError
from app.kinds.shapes import tables
from app.wire import JSON

Owners = dict[tuple[str, str, str, str], JSON]
"""managedFields entries by (manager, operation, apiVersion for updates, subresource)."""

# Fields that no manager owns: the identity, and what only the server writes.
_UNOWNED_METADATA = frozenset(
    f"f:{name}"
    for name in (
        "clusterName", "creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion",
        "selfLink", "uid",
    )
)  # fmt: skip

# What an empty object of a built-in kind already holds: a create does not own these containers, only what is in them.
_TEMPLATE: JSON = {"metadata": {}, "spec": {"containers": []}}
_CLAIM_SPEC: JSON = {"devices": {"requests": None}}
_EMPTY_SPECS: dict[str, JSON] = {
    "Pod": {"containers": []},
    **{kind: {"template": _TEMPLATE, "strategy": {}, "updateStrategy": {}} for kind in ("Deployment", "ReplicaSet")},
    **{kind: {"template": _TEMPLATE, "updateStrategy": {}} for kind in ("StatefulSet", "DaemonSet")},
    "Job": {"template": _TEMPLATE},
    "CustomResourceDefinition": {"names": {}},
    "ResourceClaim": _CLAIM_SPEC,
    "ResourceClaimTemplate": {"metadata": {}, "spec": _CLAIM_SPEC},
    "ResourceSlice": {"driver": "", "pool": {"name": "", "generation": 0, "resourceSliceCount": 0}},
    "CronJob": {"jobTemplate": {"metadata": {}, "spec": {"template": _TEMPLATE}}},
}
_EMPTY_FIELDS: dict[str, JSON] = {"EndpointSlice": {"addressType": "", "endpoints": None, "ports": None}}
"""The same of kinds without a spec."""


class ApplyConflict(BerthError):
    """Other managers own fields that this apply would change; the message is the API server's.

    `conflicts` holds (manager, field path) pairs; the manager is printed as the server does:
    `"kubectl-edit" using apps/v1`. `causes` are the Status causes.
    """

    def __init__(self, conflicts: list[tuple[str, str]]) -> None:
        self.conflicts = conflicts
        if len(conflicts) == 1:
            manager, path = conflicts[0]
            text = f"Apply failed with 1 conflict: conflict with {manager}: {path}"
        else:
            lines: list[str] = []
            for manager in sorted({manager for manager, _ in conflicts}):
                lines.append(f"conflicts with {manager}:")
                lines += [f"- {path}" for owner, path in conflicts if owner == manager]
            text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
        super().__init__(text)

    @property
    def causes(self) -> list[JSON]:
        return [
            {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
            for manager, path in self.conflicts
        ]


def server_side_apply(
    live: JSON | None,
    applied: JSON,
    *,
    manager: str,
    force: bool,
    now: str,
    merge_keys: MergeKeys,
    subresource: str = "",
    unowned: frozenset[str] = frozenset(),
) -> JSON:
    """`live` (None: nothing there yet) after `manager` applies `applied`, with managedFields; `now` is RFC 3339.

    A field that this manager applied earlier and leaves out now is removed, unless another manager owns it. Raises
    `ApplyConflict` where a field of another manager would change, unless `force` takes it over. Nulls in `applied`
    count as absent. `unowned` are top fields (`f:status`) that this endpoint ignores.
    """
    config = _without_nulls(applied)
    owners = _read_owners(live)
    if live is not None and not owners:
        owners = _before_first_apply(live, merge_keys)
    key = (manager, "Apply", "", subresource)
    last: Fields | None = owners[key]["fieldsV1"] if key in owners else None
    mine = _strip(field_set(config, merge_keys.tree, containers=False), unowned)
    before = live or {}
    merged = merge_applied(before, config, merge_keys.tree)
    if last is not None:
        held = mine
        for other, entry in owners.items():
            if other != key:
                held = union(held, entry["fieldsV1"])
        merged = prune_released(merged, last, held, merge_keys.tree)
    changed, removed = compare(_without_managed_fields(before), _without_managed_fields(merged), merge_keys.tree)
    changed = _strip(changed, unowned)
    if not force:
        _raise_conflicts(owners, key, changed)
    kept = _release(owners, key, changed, _strip(removed, unowned))
    if mine:
        time = now if changed or removed else _time(owners, key)
        kept[key] = _entry(key, mine, api_version=str(applied.get("apiVersion")), time=time)
    return _record(merged, kept)


def track_update(
    old: JSON | None,
    new: JSON,
    *,
    manager: str,
    api_version: str,
    now: str,
    subresource: str = "",
    merge_keys: MergeKeys | None = None,
    unowned: frozenset[str] = frozenset(),
) -> JSON:
    """`new` with managedFields after an ordinary create or update of `old` by `manager`.

    The writer owns the fields that it added or changed. Fields that it removed lose their owners. A writer may send
    managedFields of its own, as a migration does. With `managedFields: []` or `[{}]` all owners are deleted, and none
    are recorded until the next apply. Invalid managedFields count as left out: the owners stay as they were.
    `merge_keys` is needed for CRDs alone; `unowned` are top fields (`f:status`) that this endpoint ignores.
    """
    rules = merge_keys or built_in_merge_keys(str(new.get("kind")))
    owners = _starting_owners(old, new, subresource)
    if old is not None and not owners:
        return _record(new, {})
    key = (manager, "Update", api_version, subresource)
    before = _without_managed_fields(_empty(str(new.get("kind"))) if old is None else old)
    changed, removed = compare(before, _without_managed_fields(new), rules.tree)
    changed, removed = _strip(changed, unowned), _strip(removed, unowned)
    kept = _release(owners, key, changed, removed)
    mine: Fields | None = owners[key]["fieldsV1"] if key in owners else None
    mine = union(difference(mine, removed), changed or None)
    if mine:
        kept[key] = _entry(key, mine, api_version=api_version, time=now if changed else _time(owners, key))
    return _record(new, kept)


def _starting_owners(old: JSON | None, new: JSON, subresource: str) -> Owners:
    """The owners before the write: those that the client sent to the object itself, else those that are known."""
    sent = new.get("metadata", {}).get("managedFields")
    if old is None or subresource or sent is None:
        return _read_owners(old)
    if not sent or sent == [{}]:
        return {}
    return _read_owners(new if all(_is_entry(entry) for entry in sent) else old)


def _is_entry(entry: JSON) -> bool:
    known = entry.get("operation") in ("Apply", "Update") and entry.get("fieldsType") == "FieldsV1"
    return known and bool(entry.get("apiVersion")) and _is_field_set(entry.get("fieldsV1") or {})


def _is_field_set(fields: Any) -> bool:
    return isinstance(fields, dict) and all(
        (name == "." or name[:2] in ("f:", "k:", "v:", "i:")) and _is_field_set(inner) for name, inner in fields.items()
    )


def _empty(kind: str) -> JSON:
    if kind not in tables().types:
        return {"metadata": {}}
    return {"metadata": {}, "spec": _EMPTY_SPECS.get(kind, {}), "status": {}, **_EMPTY_FIELDS.get(kind, {})}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_nulls(child) for child in value]
    return value


def _without_managed_fields(obj: JSON) -> JSON:
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _strip(fields: Fields | None, unowned: frozenset[str] = frozenset()) -> Fields:
    """The fields without those that no manager owns; empty where nothing is left."""
    if not fields:
        return {}
    left = {".", "f:apiVersion", "f:kind", "f:metadata"} | unowned
    kept = {name: node for name, node in fields.items() if name not in left}
    metadata = {
        name: node
        for name, node in fields.get("f:metadata", {}).items()
        if name != "." and name not in _UNOWNED_METADATA
    }
    return {**({"f:metadata": metadata} if metadata else {}), **kept}


def _read_owners(obj: JSON | None) -> Owners:
    owners: Owners = {}
    for entry in (obj or {}).get("metadata", {}).get("managedFields") or []:
        update = entry.get("operation") == "Update"
        version = entry.get("apiVersion", "") if update else ""
        key = (entry.get("manager", ""), entry.get("operation", ""), version, entry.get("subresource", ""))
        owners[key] = {**entry, "fieldsV1": entry.get("fieldsV1") or {}}
    return owners


def _before_first_apply(live: JSON, merge_keys: MergeKeys) -> Owners:
    """The owners of an object without managedFields: a manager of that name, so that a first apply can conflict."""
    key = ("before-first-apply", "Update", str(live.get("apiVersion")), "")
    fields = _strip(field_set(_without_managed_fields(live), merge_keys.tree, containers=True))
    return {key: _entry(key, fields, api_version=key[2], time="")}


def _time(owners: Owners, key: tuple[str, str, str, str]) -> str:
    """When the manager last wrote a value; "" where that is not known."""
    return str(owners.get(key, {}).get("time") or "")


def _entry(key: tuple[str, str, str, str], fields: Fields, *, api_version: str, time: str) -> JSON:
    """The entry of a manager.

    `time` is that of its last write of a value. An update that only removes fields keeps the time, as does an apply
    that changes no value: an entry that begins with such an apply has none.
    """
    manager, operation, _, subresource = key
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": api_version,
        **({"time": time} if time else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **({"subresource": subresource} if subresource else {}),
    }


def _printed_manager(entry: Mapping[str, Any]) -> str:
    text = f'"{entry.get("manager", "")}"'
    if entry.get("subresource"):
        text += f' with subresource "{entry["subresource"]}"'
    return f"{text} using {entry.get('apiVersion')}" if entry.get("operation") == "Update" else text


def _raise_conflicts(owners: Owners, key: tuple[str, str, str, str], changed: Fields) -> None:
    conflicts = [
        (_printed_manager(entry), path)
        for other, entry in owners.items()
        if other != key
        for path in members(intersection(entry["fieldsV1"], changed))
    ]
    if conflicts:
        raise ApplyConflict(conflicts)


def _release(owners: Owners, key: tuple[str, str, str, str], changed: Fields, removed: Fields) -> Owners:
    """The other managers with what they still own; `key` itself is left out."""
    kept: Owners = {}
    for other, entry in owners.items():
        if other == key:
            continue
        fields = entry["fieldsV1"]
        if changed:
            fields = difference(fields, changed)
        if removed and fields is not None:
            fields = difference(fields, removed)
        if fields:
            kept[other] = {**entry, "fieldsV1": fields}
    return kept


def _record(obj: JSON, owners: Owners) -> JSON:
    entries = sorted(
        owners.values(),
        key=lambda entry: (entry["operation"], entry.get("time") or "", entry["manager"], entry.get("subresource", "")),
    )
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    return {**obj, "metadata": {**metadata, "managedFields": entries} if entries else metadata}
