"""Discovery: which groups, versions and resources a cluster serves, plain and aggregated; and its version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.devtools.sandbox.api.call import Reply, json_reply
from app.devtools.sandbox.kinds.builtin import VERBS, ApiResource, Registry

if TYPE_CHECKING:
    from app.wire import JSON

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION: JSON = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+berth-sandbox",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-04-22T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
_SUBRESOURCE_VERBS = {
    "binding": ("create",),
    "eviction": ("create",),
    **dict.fromkeys(("exec", "attach", "portforward"), ("create", "get")),
    "finalize": ("update",),
    "log": ("get",),
    "proxy": ("create", "delete", "get", "patch", "update"),
    "token": ("create",),
}
_SUBRESOURCE_KINDS = {
    "attach": ("", "v1", "PodAttachOptions"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "exec": ("", "v1", "PodExecOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
    "proxy": ("", "v1", "PodProxyOptions"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
_STATUS_VERBS = ("get", "patch", "update")


def describe(registry: Registry, root: str, rest: tuple[str, ...], host: str) -> JSON | None:
    """The plain document at `/api` or `/apis` and what follows, None where there is none."""
    match (root, *rest):
        case ("api",):
            return core_versions(host)
        case ("apis",):
            return group_list(registry)
        case ("apis", group):
            return one_group(registry, group)
        case ("api", version):
            return resource_list(registry, "", version)
        case ("apis", group, version):
            return resource_list(registry, group, version)
    return None


def core_versions(host: str) -> JSON:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def group_list(registry: Registry) -> JSON:
    groups = [_group(name, versions) for name, versions in registry.groups().items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def one_group(registry: Registry, group: str) -> JSON | None:
    versions = registry.groups().get(group)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)} if versions else None


def resource_list(registry: Registry, group: str, version: str) -> JSON | None:
    """The resources of one group version, None where it is not served."""
    rows = [row for row in registry if (row.group, row.version) == (group, version)]
    if not rows:
        return None
    resources: list[JSON] = []
    for row in sorted(rows, key=lambda row: row.plural):
        entry: JSON = {
            "name": row.plural,
            "singularName": row.singular_name,
            "namespaced": row.namespaced,
            "kind": row.kind,
            "verbs": list(_verbs(row)),
        }
        if row.short_names:
            entry["shortNames"] = list(row.short_names)
        if row.categories:
            entry["categories"] = list(row.categories)
        resources.append(entry)
        resources += [_subresource(row, name) for name in sorted(row.subresources)]
    label = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": label, "resources": resources}


def aggregated(registry: Registry, *, core: bool) -> Reply:
    """All groups with all their resources in one answer, as current clients ask for it."""
    groups = {"": ["v1"]} if core else registry.groups()
    items: list[JSON] = []
    for group, versions in groups.items():
        described = [
            {
                "version": version,
                "freshness": "Current",
                "resources": [
                    _described(row)
                    for row in sorted(registry, key=lambda row: row.plural)
                    if (row.group, row.version) == (group, version)
                ],
            }
            for version in versions
        ]
        items.append({"metadata": {"name": group, "creationTimestamp": None}, "versions": described})
    body: JSON = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }
    return json_reply(body, content_type=AGGREGATED)


def wants_aggregated(accept: str) -> bool:
    return "as=APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", "")


def _group(name: str, versions: list[str]) -> JSON:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _verbs(row: ApiResource) -> tuple[str, ...]:
    if row.virtual:
        return ("create",)
    return tuple(verb for verb in VERBS if verb != "deletecollection" or row.kind != "Namespace")


def _subresource(row: ApiResource, name: str) -> JSON:
    entry: JSON = {
        "name": f"{row.plural}/{name}",
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(_SUBRESOURCE_VERBS.get(name, _STATUS_VERBS)),
    }
    if name in _SUBRESOURCE_KINDS:
        group, version, kind = _SUBRESOURCE_KINDS[name]
        entry["kind"] = kind
        if group:
            entry |= {"group": group, "version": version}
    return entry


def _described(row: ApiResource) -> JSON:
    entry: JSON = {
        "resource": row.plural,
        "responseKind": {"group": row.group, "version": row.version, "kind": row.kind},
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular_name,
        "verbs": list(_verbs(row)),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    if row.subresources:
        entry["subresources"] = [_described_subresource(row, name) for name in sorted(row.subresources)]
    return entry


def _described_subresource(row: ApiResource, name: str) -> JSON:
    group, version, kind = _SUBRESOURCE_KINDS.get(name, (row.group, row.version, row.kind))
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "verbs": list(_SUBRESOURCE_VERBS.get(name, _STATUS_VERBS)),
    }
