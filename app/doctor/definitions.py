"""Check `definitions`: are the CustomResourceDefinitions there, served, and those of this version."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from app.definitions import GROUPS, TENANT, definition_name, read_definitions
from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, error, info, kinds_topic, listed, or_default, sound, warning
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
    found = await cluster.listed(CUSTOM_RESOURCE_DEFINITIONS)
    present = {definition["metadata"]["name"]: definition for definition in found}
    needed = await _needed(cluster, present)
    for resource, roles in needed.items():
        name = definition_name(resource)
        subject, topics = f"CustomResourceDefinition {name}", tuple(map(kinds_topic, sorted(roles)))
        if name in present:
            for finding in _judged(cluster, resource, present[name], subject):
                yield finding
        elif resource == NETWORK_ATTACHMENTS:
            follows = "the webhook does not get ready, and no Pod can have a network: Multus brings this definition"
            yield error("BERTH0201", subject, "is not there", follows, MULTUS, explains=topics)
        else:
            charted = await cluster.by_chart(unknown=False)
            follows = f"{'agents do' if resource in TENANT else 'controller and gateway do'} not get ready"
            fix = commands.helm_upgrade(cluster, "crds.install=true") if charted else _apply(resource, force=False)
            yield error("BERTH0201", subject, "is not there", follows, fix, explains=topics)
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
        chosen = {name for one in running if one.role == role.name for name in one.deployed.get("controllers", ())}
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


def _judged(cluster: Cluster, resource: Resource, definition: JSON, subject: str) -> Iterator[Finding]:
    ours = resource != NETWORK_ATTACHMENTS
    fix = _apply(resource, force=True) if ours else MULTUS
    if ours and objects.labels(definition).get("app.kubernetes.io/managed-by") == "Helm":
        fix = commands.helm_upgrade(cluster, "crds.install=true")
    established, names = objects.condition(definition, "Established"), objects.condition(definition, "NamesAccepted")
    if established.get("status") != "True":
        why = names.get("message") if names.get("status") == "False" else established.get("message")
        text = f"is not served: {why or 'the API server has not accepted it'}"
        follows = f"{resource.plural} can be neither read nor written, as if the definition were missing"
        yield error(
            "BERTH0202",
            subject,
            text,
            follows,
            f"kubectl describe customresourcedefinition {definition_name(resource)}",
        )
    versions = {one.get("name"): one for one in (definition.get("spec") or {}).get("versions") or []}
    if not (versions.get(resource.version) or {}).get("served"):
        text = f"does not serve {resource.version}, which this version of Berth speaks"
        yield error("BERTH0203", subject, text, f"reads and writes of {resource.plural} answer 404", fix)
    elif ours:
        yield from _differences(subject, read_definitions([resource])[0], definition, fix)
    stored = set((definition.get("status") or {}).get("storedVersions") or [])
    if ours and (old := sorted(stored - {resource.version})):
        follows = "a later definition without that version is refused until they are written again"
        yield warning("BERTH0204", subject, f"has objects stored as {', '.join(old)}", follows, _rewrite(resource))


_KINDS = ("missing", "changed", "unknown")
"""A field is not in the cluster; it is there with other rules; it is only there."""


def _differences(subject: str, shipped: JSON, present: JSON, fix: str) -> Iterator[Finding]:
    found = list(_compared(shipped, present))
    missing, changed, unknown = ([path for said, path in found if said == kind] for kind in _KINDS)
    if missing or changed:
        parts = [f"lacks {listed(missing)}"] if missing else []
        parts += [f"differs in {listed(changed)}"] if changed else []
        follows = (
            "the API server drops what Berth writes there, and reports no error"
            if missing
            else "the API server checks objects by other rules than Berth does"
        )
        yield warning("BERTH0205", subject, f"is not that of this version: {'; '.join(parts)}", follows, fix)
    elif unknown:
        text = f"is newer than this berth: it also has {listed(unknown)}"
        yield info("BERTH0206", subject, text)


def _compared(shipped: JSON, present: JSON) -> Iterator[tuple[str, str]]:
    """Kinds and paths, version by version that we ship; other versions of the cluster do not matter."""
    there = {version.get("name"): version for version in (present.get("spec") or {}).get("versions") or []}
    if shipped["spec"].get("scope") != (present.get("spec") or {}).get("scope"):
        yield ("changed", "scope")
    for version in shipped["spec"]["versions"]:
        other = there.get(version["name"])
        if other is None:
            yield ("missing", f"version {version['name']}")
            continue
        for key in ("subresources", "additionalPrinterColumns", "selectableFields"):
            if (version.get(key) or None) != (other.get(key) or None):
                yield ("changed", key)
        ours, theirs = ((one.get("schema") or {}).get("openAPIV3Schema") or {} for one in (version, other))
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
        one, other = ours.get(key), theirs.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _walk(one, other, path=path + mark)
        elif one != other:
            yield ("changed", path + mark)


def _rules(schema: JSON) -> dict[str, Any]:
    """What a schema demands of the value itself; empty is the same as absent, as it is for the API server."""
    return {
        key: value
        for key, value in schema.items()
        if key not in _NOT_COMPARED and value not in (None, [], {}, "", False)
    }


def _apply(resource: Resource, *, force: bool) -> str:
    kinds = next(name for name, group in GROUPS.items() if resource in group)
    return f"berth crds {kinds} | kubectl apply --server-side{' --force-conflicts' if force else ''} -f -"


def _rewrite(resource: Resource) -> str:
    """Writes the objects again, and then the list of versions, which the API server only ever adds to."""
    name = definition_name(resource)
    patch = f'{{"status":{{"storedVersions":["{resource.version}"]}}}}'
    listing = commands.kubectl(
        "patch", "customresourcedefinition", name, "--subresource=status", "--type=merge", "-p", patch
    )
    found = f"kubectl get {name} --all-namespaces --output name"
    return f'kubectl get {name} -A -o yaml | kubectl replace --validate=false -f - || [ -z "$({found})" ] &&\n{listing}'


CHECK = Check("definitions", (_definitions,))
