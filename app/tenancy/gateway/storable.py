"""What is stored of a tenant's manifest: checked, in the tenant's namespace, with our marks. Pure.

Contents of Secrets pass through here: no message quotes a value.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from app.kube.resources import CONFIG_MAPS, DAEMON_SETS, PODS, SECRETS, Resource
from app.placement.model import PlacementOptions
from app.tenancy.gateway.confining import Confinement
from app.tenancy.gateway.failures import invalid
from app.tenancy.messages import canonical, owner_problems
from app.wire import JSON
from app.workloads.model import COMPANION, RESOURCE_OWNER, SOURCE_HASH, tenant_name

RESOURCES = {(made.api_version, made.kind): made for made in (PODS, DAEMON_SETS, SECRETS, CONFIG_MAPS)}
PATH = "obj.obj_spec"
"""The field of a request that has the manifest."""
_PLACEMENT = PlacementOptions()
_KEPT = ("labels", "annotations")
_CONTENTS = ("data", "binaryData")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A good manifest: `body` is what is to be applied, `hash` what it was made from, `size` its bytes.

    `owner` keeps the object.
    """

    resource: Resource
    name: str
    owner: str
    body: JSON
    hash: str
    size: int

    def is_stored_in(self, found: JSON) -> bool:
        """Whether the object was made from the same, so that nothing has to be written."""
        return (found["metadata"].get("annotations") or {}).get(SOURCE_HASH) == self.hash


def resource_of(api_version: str, kind: str) -> Resource:
    """INVALID_ARGUMENT for a type that tenants cannot have."""
    found = RESOURCES.get((api_version, kind))
    if found is None:
        known = ", ".join(f"{version} {name}" for version, name in RESOURCES)
        raise invalid([f"type: {api_version!r} {kind!r} is not served: use one of {known}"])
    return found


def checked_owner(owner: str) -> str:
    """INVALID_ARGUMENT for what cannot be the owner of an object."""
    if problems := owner_problems(owner, "owner"):
        raise invalid(problems)
    return owner


def selector_of(owner: str) -> str:
    """The label selector of what an owner keeps, "" for any owner's; INVALID_ARGUMENT for what cannot be one."""
    checked_owner(owner)
    return f"{RESOURCE_OWNER}={owner},!{COMPANION}" if owner else f"{RESOURCE_OWNER},!{COMPANION}"


def owner_of(found: JSON) -> str:
    """Who keeps an object; "" for one that was not made of a tenant's manifest."""
    labels = found["metadata"].get("labels") or {}
    return "" if COMPANION in labels else str(labels.get(RESOURCE_OWNER) or "")


def prepare(
    manifest: JSON, *, resource: Resource, namespace: str, owner: str, placement: PlacementOptions = _PLACEMENT
) -> Manifest:
    """What is stored of a tenant's manifest: its namespace forced, its Pods confined, our marks on it.

    INVALID_ARGUMENT where that cannot be.
    """
    confinement = Confinement(tenant_name(namespace), placement)
    named = (manifest.get("apiVersion"), manifest.get("kind"))
    if named != (resource.api_version, resource.kind):
        raise invalid([f"{PATH}: want apiVersion {resource.api_version} and kind {resource.kind}, as in type"])
    if problems := confinement.manifest_problems(manifest, resource.kind, PATH):
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
    body = confinement.confined(body)
    content = canonical(body)
    digest = hashlib.sha256(content).hexdigest()
    metadata["labels"] = {**metadata.get("labels", {}), RESOURCE_OWNER: owner}
    metadata["annotations"] = {**metadata.get("annotations", {}), SOURCE_HASH: digest}
    return Manifest(resource, name, owner, body, digest, len(content))


def _folded(body: JSON) -> JSON:
    """A Secret with `stringData` in its `data`, as the API server does it: the strings win."""
    strings = _texts(body.pop("stringData", None) or {})
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
    data = _texts(body.get("data") or {}) | encoded
    return {**body, "data": data} if data else body


def _texts(entries: JSON) -> JSON:
    """Checked entries of text; a null is an empty one, as the API server reads it."""
    return {key: "" if value is None else value for key, value in entries.items()}
