"""Check `definitions`: are the CustomResourceDefinitions there, served, and those of this version."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from app.definitions import GROUPS, TENANT, definition_name, read_definitions
from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, error, info, or_default, sound, topic, warning
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS, Resource
from app.registry import CONTROLLERS, ROLES, kinds_of, needs_of
from app.wire import JSON

MULTUS = (
    "kubectl apply -f https://raw.githubusercontent.com/k8snetworkplumbingwg/multus-cni/master/deployments/"
    "multus-daemonset-thick.yml"
)
_NOT_COMPARED = frozenset(
    {"description", "title", "example", "externalDocs", "properties", "items", "additionalProperties"}
)
"""What says nothing about which objects are valid, and what is compared field by field."""


async def _definitions(cluster: Cluster) -> AsyncIterator[Finding]:
    definitions = await cluster.listed(CUSTOM_RESOURCE_DEFINITIONS)
    present = {definition["metadata"]["name"]: definition for definition in definitions}
    needed = await _needed(cluster, present)
    for resource, roles in needed.items():
        it = objects.named(CUSTOM_RESOURCE_DEFINITIONS, definition_name(resource))
        if it.name in present:
            for finding in _judged(cluster, resource, objects.Object(it.resource, present[it.name])):
                yield finding
            continue
        fix = _fix(cluster, resource, charted=await cluster.by_chart(unknown=False))
        case = "attachments" if resource == NETWORK_ATTACHMENTS else "tenant" if resource in TENANT else ""
        topics = tuple(topic("kinds", role) for role in sorted(roles))
        yield error("BERTH0201", it, case=case, command=fix, explains=topics)
    if needed:
        yield sound(len(needed), "definition")


async def _needed(cluster: Cluster, present: dict[str, JSON]) -> dict[Resource, set[str]]:
    """The kinds, with the roles that need them; of a group of which one kind is present, all, whatever roles run."""
    roles = set(await cluster.expected_roles())
    if await or_default(cluster.registered(), []):
        roles.add("webhook")
    running = await or_default(cluster.installed(), [])
    wanted: dict[Resource, set[str]] = {}
    for role in ROLES:
        chosen = {
            name
            for deployment in running
            if deployment.role == role.name
            for name in deployment.deployed.get("controllers", ())
        }
        for group, controllers in needs_of(role).items() if role.name in roles else ():
            usual = [name for name in controllers if CONTROLLERS[name].usual]
            if not controllers or chosen.intersection(controllers) or (usual and not chosen):
                for resource in kinds_of(group):
                    wanted.setdefault(resource, set()).add(role.name)
    for kinds in GROUPS.values():
        if any(definition_name(resource) in present for resource in kinds):
            for resource in kinds:
                wanted.setdefault(resource, set())
    return wanted


def _fix(cluster: Cluster, resource: Resource, *, charted: bool, force: str = "") -> str:
    if resource == NETWORK_ATTACHMENTS:
        return MULTUS
    if charted:
        return commands.helm_upgrade(cluster, "crds.install=true")
    kinds = next(name for name, group in GROUPS.items() if resource in group)
    return f"berth crds {kinds} | kubectl apply --server-side{force} -f -"


def _judged(cluster: Cluster, resource: Resource, it: objects.Object) -> Iterator[Finding]:
    ours, spec = resource != NETWORK_ATTACHMENTS, objects.spec(it.json)
    charted = objects.labels(it.json).get("app.kubernetes.io/managed-by") == "Helm"
    fix = _fix(cluster, resource, charted=charted, force=" --force-conflicts")
    established, names = objects.condition(it.json, "Established"), objects.condition(it.json, "NamesAccepted")
    if established.get("status") != "True":
        why = names.get("message") if names.get("status") == "False" else established.get("message")
        why = why or "the API server has not accepted it"
        yield error("BERTH0202", it, why=why, kind=resource)
    versions = {version.get("name"): version for version in spec.get("versions") or []}
    if not (versions.get(resource.version) or {}).get("served"):
        yield error("BERTH0203", it, kind=resource, command=fix)
    elif ours:
        yield from _differences(it, read_definitions([resource])[0], fix)
    stored = set(objects.status(it.json).get("storedVersions") or [])
    if ours and (old := sorted(stored - {resource.version})):
        patch = f'{{"status":{{"storedVersions":["{resource.version}"]}}}}'
        yield warning("BERTH0204", it, old=", ".join(old), patch=patch)


_KINDS = ("missing", "changed", "unknown")
"""A field is not in the cluster; it is there with other rules; it is only there."""


def _differences(it: objects.Object, shipped: JSON, fix: str) -> Iterator[Finding]:
    differences = list(_compared(shipped["spec"], objects.spec(it.json)))
    missing, changed, unknown = ([path for difference, path in differences if difference == kind] for kind in _KINDS)
    if missing or changed:
        case = "both" if missing and changed else "missing" if missing else ""
        yield warning("BERTH0205", it, case=case, missing=missing, changed=changed, command=fix)
    elif unknown:
        yield info("BERTH0206", it, unknown=unknown)


def _compared(shipped: JSON, present: JSON) -> Iterator[tuple[str, str]]:
    """Kinds and paths, version by version that we ship; other versions of the cluster do not matter."""
    versions = {version.get("name"): version for version in present.get("versions") or []}
    if shipped.get("scope") != present.get("scope"):
        yield ("changed", "scope")
    for version in shipped["versions"]:
        other = versions.get(version["name"])
        if other is None:
            yield ("missing", f"version {version['name']}")
            continue
        for key in ("subresources", "additionalPrinterColumns", "selectableFields"):
            if (version.get(key) or None) != (other.get(key) or None):
                yield ("changed", key)
        ours, theirs = (
            (definition.get("schema") or {}).get("openAPIV3Schema") or {} for definition in (version, other)
        )
        yield from _walk(ours, theirs, path="")


def _walk(ours: JSON, theirs: JSON, *, path: str) -> Iterator[tuple[str, str]]:
    """The differences in the order of the names."""
    if _rules(ours) != _rules(theirs):
        yield ("changed", path or ".")
    mine, others = ours.get("properties") or {}, theirs.get("properties") or {}
    for name in sorted({*mine, *others}):
        below = f"{path}.{name}" if path else name
        if name in mine and name in others:
            yield from _walk(mine[name], others[name], path=below)
        else:
            yield ("missing" if name in mine else "unknown", below)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        own, other = ours.get(key), theirs.get(key)
        if isinstance(own, dict) and isinstance(other, dict):
            yield from _walk(own, other, path=path + mark)
        elif own != other:
            yield ("changed", path + mark)


def _rules(schema: JSON) -> dict[str, Any]:
    """What a schema demands of the value itself; empty is the same as absent, as it is for the API server."""
    empty: tuple[object, ...] = (None, [], {}, "", False)
    return {key: value for key, value in schema.items() if key not in _NOT_COMPARED and value not in empty}


CHECK = Check("definitions", (_definitions,))
