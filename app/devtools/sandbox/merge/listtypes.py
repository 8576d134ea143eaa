"""Which lists and maps of a kind merge, and by which keys: the facts that both kinds of merging patch stand on.

Owns the table of the built-in kinds and the reading of CRD schemas. Two worlds meet here and differ in places:
server-side apply (`keys`, the API's list types) and strategic merge patch (`patch_key`). What the table does not name
is a granular map or an atomic list, as in the API. No merging happens here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from app.wire import JSON

Path = tuple[str, ...]
WILDCARD = "*"
"""Stands for any key of a map, where a map's values have rules of their own."""


class Rule(NamedTuple):
    """How the value at one path merges.

    `keys`: None for an atomic value, () for a set, else the fields that identify an element (server-side apply).
    `patch_key`: None where a strategic merge patch replaces, "" for a list of scalars, else the merge key.
    `defaults`: what an absent key field stands for.
    `whole_items`: elements are atomic themselves, as references by name are.
    """

    keys: tuple[str, ...] | None
    patch_key: str | None = None
    defaults: tuple[tuple[str, object], ...] = ()
    whole_items: bool = False


class Branch:
    """A tree over the paths, so that a merge walks rules and objects side by side without building paths."""

    __slots__ = ("children", "rule")

    def __init__(self) -> None:
        self.rule: Rule | None = None
        self.children: dict[str, Branch] = {}

    def child(self, name: str) -> Branch:
        return self.children.get(name) or self.children.get(WILDCARD) or NOTHING

    def grow(self, path: Path) -> Branch:
        branch = self
        for name in path:
            branch = branch.children.setdefault(name, Branch())
        return branch


NOTHING = Branch()


class MergeKeys(Mapping[Path, tuple[str, ...]]):
    """Schema path to the key fields of the list there: `("spec", "containers")` to `("name",)`; () marks a set.

    List elements add nothing to a path. Atomic values are not in the mapping; `tree` knows them too.
    """

    def __init__(self, rules: Mapping[Path, Rule]) -> None:
        self.tree = Branch()
        self._keys = {path: rule.keys for path, rule in rules.items() if rule.keys is not None}
        for path, rule in rules.items():
            self.tree.grow(path).rule = rule

    def __getitem__(self, path: Path) -> tuple[str, ...]:
        return self._keys[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


_ATOMIC = Rule(None)
_SET = Rule((), "")
_BY_NAME = Rule(("name",), "name")
_BY_TYPE = Rule(("type",), "type")
_PROTOCOL = (("protocol", "TCP"),)

_METADATA: dict[str, Rule] = {
    "finalizers": _SET,
    "ownerReferences": Rule(("uid",), "uid"),
}
_CONTAINER: dict[str, Rule] = {
    "env": _BY_NAME,
    "env.valueFrom.configMapKeyRef": _ATOMIC,
    "env.valueFrom.fieldRef": _ATOMIC,
    "env.valueFrom.fileKeyRef": _ATOMIC,
    "env.valueFrom.resourceFieldRef": _ATOMIC,
    "env.valueFrom.secretKeyRef": _ATOMIC,
    "ports": Rule(("containerPort", "protocol"), "containerPort", _PROTOCOL),
    "resources.claims": Rule(("name",)),
    "volumeDevices": Rule(("devicePath",), "devicePath"),
    "volumeMounts": Rule(("mountPath",), "mountPath"),
}
_POD_SPEC: dict[str, Rule] = {
    **{
        f"{containers}{suffix}": rule
        for containers in ("containers", "initContainers", "ephemeralContainers")
        for suffix, rule in {"": _BY_NAME, **{f".{path}": rule for path, rule in _CONTAINER.items()}}.items()
    },
    "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": _ATOMIC,
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution": _ATOMIC,
    "hostAliases": Rule(("ip",), "ip"),
    "imagePullSecrets": Rule(("name",), "name", whole_items=True),
    "nodeSelector": _ATOMIC,
    "resourceClaims": _BY_NAME,
    "schedulingGates": _BY_NAME,
    "securityContext.supplementalGroups": _ATOMIC,
    "topologySpreadConstraints": Rule(("topologyKey", "whenUnsatisfiable"), "topologyKey"),
    "volumes": _BY_NAME,
    "volumes.projected.sources": _ATOMIC,
}
_POD_STATUS: dict[str, Rule] = {
    "conditions": _BY_TYPE,
    "hostIPs": Rule(None, "ip"),
    "podIPs": Rule(("ip",), "ip"),
    "resourceClaimStatuses": _BY_NAME,
}


def _under(prefix: str, rules: Mapping[str, Rule]) -> dict[str, Rule]:
    return {f"{prefix}.{path}": rule for path, rule in rules.items()}


_TEMPLATE = _under("metadata", _METADATA) | _under("spec", _POD_SPEC)
_WORKLOAD = {"spec.selector": _ATOMIC, "status.conditions": _BY_TYPE} | _under("spec.template", _TEMPLATE)
_WEBHOOKS = {
    "webhooks": _BY_NAME,
    "webhooks.matchConditions": _BY_NAME,
    "webhooks.namespaceSelector": _ATOMIC,
    "webhooks.objectSelector": _ATOMIC,
}
_KINDS: dict[str, dict[str, Rule]] = {
    "Pod": _under("spec", _POD_SPEC) | _under("status", _POD_STATUS),
    "PodTemplate": _under("template", _TEMPLATE),
    "Node": {
        "spec.podCIDRs": _SET,
        "status.addresses": _BY_TYPE,
        "status.conditions": _BY_TYPE,
    },
    "Namespace": {"status.conditions": _BY_TYPE},
    "Service": {
        "spec.ports": Rule(("port", "protocol"), "port", _PROTOCOL),
        "spec.selector": _ATOMIC,
        "status.conditions": _BY_TYPE,
    },
    "ServiceAccount": {"secrets": _BY_NAME, "imagePullSecrets": _ATOMIC},
    "Deployment": _WORKLOAD,
    "ReplicaSet": _WORKLOAD,
    "StatefulSet": _WORKLOAD,
    "DaemonSet": _WORKLOAD,
    "Job": _WORKLOAD,
    "CronJob": _under("spec.jobTemplate", _under("metadata", _METADATA) | _WORKLOAD),
    "CustomResourceDefinition": {"status.conditions": Rule(("type",))},
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "EndpointSlice": {"ports": _ATOMIC, "endpoints": _ATOMIC},
}
BUILT_IN_KINDS = frozenset(_KINDS)


def _split(rules: Mapping[str, Rule]) -> dict[Path, Rule]:
    return {tuple(path.split(".")): rule for path, rule in rules.items()}


@lru_cache(maxsize=256)
def merge_keys(kind: str) -> MergeKeys:
    """The merge rules of a built-in kind; metadata's alone for a kind that is not in the table."""
    return MergeKeys(_split(_under("metadata", _METADATA) | _KINDS.get(kind, {})))


def merge_keys_from_schema(schema: JSON) -> MergeKeys:
    """The merge rules that a CRD's openAPIV3Schema declares (x-kubernetes-list-type, -list-map-keys, -map-type)."""
    rules = _split(_under("metadata", _METADATA))
    _read_schema(schema, (), rules)
    return MergeKeys(rules)


def _read_schema(schema: JSON, path: Path, rules: dict[Path, Rule]) -> None:
    list_type = schema.get("x-kubernetes-list-type")
    items = schema.get("items") or {}
    if list_type == "set":
        rules[path] = Rule(())
    elif list_type == "map":
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        fields = items.get("properties") or {}
        rules[path] = Rule(keys, None, tuple((k, fields[k]["default"]) for k in keys if "default" in fields.get(k, {})))
    elif schema.get("x-kubernetes-map-type") == "atomic":
        rules[path] = _ATOMIC
    _read_children(schema, path, rules)
    if items:
        _read_children(items, path, rules)


def _read_children(schema: JSON, path: Path, rules: dict[Path, Rule]) -> None:
    for name, child in (schema.get("properties") or {}).items():
        if path or name != "metadata":
            _read_schema(child, (*path, name), rules)
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        _read_schema(values, (*path, WILDCARD), rules)
