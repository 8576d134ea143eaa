"""What is stored of a tenant's manifest: checked, in the tenant's namespace, with our marks. Pure.

Contents of Secrets pass through here: no message quotes a value. What a tenant asks for is kept on the tenant's DPUs,
in Pods and in templates. The webhook of the infra cluster confines Pods too. But a DaemonSet's controller decides from
the template where Pods belong, and those for other tenants' DPUs would be made only to stay pending.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from app.kube.resources import CONFIG_MAPS, PODS, SECRETS, Resource
from app.placement.model import PlacementOptions, Requirement
from app.placement.plan import contradictions, placed, requirements
from app.tenancy.gateway.failures import invalid
from app.tenancy.messages import canonical
from app.wire import JSON
from app.workloads.model import DAEMON_SETS, RESOURCE_OWNER, SOURCE_HASH, tenant_name
from app.workloads.templates.problems import manifest_problems

RESOURCES = {(made.api_version, made.kind): made for made in (PODS, DAEMON_SETS, SECRETS, CONFIG_MAPS)}
PATH = "obj.obj_spec"
"""The field of a request that has the manifest."""
_PLACEMENT = PlacementOptions()
_KEPT = ("labels", "annotations")
_CONTENTS = ("data", "binaryData")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A good manifest: `body` is what is to be applied, `hash` what it was made from, `size` its bytes."""

    resource: Resource
    name: str
    body: JSON
    hash: str
    size: int


def prepare(
    manifest: JSON, *, resource: Resource, namespace: str, owner: str, placement: PlacementOptions = _PLACEMENT
) -> Manifest:
    """What is stored of a tenant's manifest: its namespace forced, its Pods confined, our marks on it.

    INVALID_ARGUMENT where that cannot be.
    """
    named = (manifest.get("apiVersion"), manifest.get("kind"))
    if named != (resource.api_version, resource.kind):
        raise invalid([f"{PATH}: want apiVersion {resource.api_version} and kind {resource.kind}, as in type"])
    if problems := manifest_problems(manifest, kind=resource.kind, path=PATH, policy=placement.policy):
        raise invalid(problems)
    given = manifest.get("metadata") or {}
    name: str = given["name"]
    metadata: JSON = {"name": name, "namespace": namespace}
    metadata |= {part: _texts(given[part]) for part in _KEPT if given.get(part)}
    body = {part: value for part, value in manifest.items() if part not in ("metadata", "status")}
    body["metadata"] = metadata
    if resource == SECRETS:
        body = _folded(body)
    elif resource == CONFIG_MAPS:
        body |= {part: _texts(body[part]) for part in _CONTENTS if body.get(part)}
    body = _confined(body, resource=resource, namespace=namespace, options=placement)
    content = canonical(body)
    digest = hashlib.sha256(content).hexdigest()
    metadata["labels"] = {**metadata.get("labels", {}), RESOURCE_OWNER: owner}
    metadata["annotations"] = {**metadata.get("annotations", {}), SOURCE_HASH: digest}
    return Manifest(resource, name, body, digest, len(content))


def _confined(body: JSON, *, resource: Resource, namespace: str, options: PlacementOptions) -> JSON:
    """The object with the affinity of its tenant; INVALID_ARGUMENT where it asks for what no such node has."""
    wanted = requirements(host=None, tenant=tenant_name(namespace), options=options)
    if not wanted or resource not in (PODS, DAEMON_SETS):
        return body
    if resource == PODS:
        return {**body, "spec": _placed(body["spec"], wanted, f"{PATH}.spec")}
    spec, template = body["spec"], body["spec"]["template"]
    inner = _placed(template["spec"], wanted, f"{PATH}.spec.template.spec")
    return {**body, "spec": {**spec, "template": {**template, "spec": inner}}}


def _placed(spec: JSON, wanted: tuple[Requirement, ...], path: str) -> JSON:
    if problems := contradictions(spec, wanted, path):
        raise invalid(problems)
    return placed(spec, wanted)


def _folded(body: JSON) -> JSON:
    """A Secret with `stringData` in its `data`, as the API server does it: the strings win."""
    strings = _texts(body.pop("stringData", None) or {})
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
    data = _texts(body.get("data") or {}) | encoded
    return {**body, "data": data} if data else body


def _texts(entries: JSON) -> JSON:
    """Checked entries of text; a null is an empty one, as the API server reads it."""
    return {key: "" if value is None else value for key, value in entries.items()}
