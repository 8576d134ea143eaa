"""Manifests of the resource service: read from JSON or YAML, checked to be stored, and rendered as YAML. Pure.

Contents of Secrets pass through here: no message quotes a value.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from app.kube.documents import DocumentError, parse_documents
from app.kube.resources import CONFIG_MAPS, DAEMON_SETS, PODS, SECRETS, Resource
from app.placement.model import PlacementOptions
from app.tenancy.gateway.confining import Confinement
from app.tenancy.gateway.failures import invalid
from app.tenancy.gateway.settings import Limits
from app.tenancy.messages import canonical, owner_problems, public_marks
from app.wire import JSON, decode_json
from app.workloads.model import COMPANION, RESOURCE_OWNER, SOURCE_HASH, tenant_name
from app.yaml_documents import text_in

RESOURCES = {(made.api_version, made.kind): made for made in (PODS, DAEMON_SETS, SECRETS, CONFIG_MAPS)}
_PATH = "obj.obj_spec"
"""The field of a request that has the manifest."""
_PLACEMENT = PlacementOptions()
_KEPT = ("labels", "annotations")
_CONTENTS = ("data", "binaryData")
_DEPTH = 60
"""Levels that a manifest may have; a DaemonSet's deepest field lies about 15 down."""
_LARGE = 8 * 1024
_SHOWN = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan"})


def read(text: bytes, *, kind: str, limits: Limits) -> JSON:
    """The manifest in JSON or YAML. It may take a second: call it beside the event loop. INVALID_ARGUMENT."""
    if len(text) > (most := limits.bytes_of(kind)):
        raise invalid([f"{_PATH}: {len(text)} bytes: a manifest of a {kind} has at most {most}"])
    try:
        decoded = decode_json(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = _read_yaml(text, limits)
    if not isinstance(decoded, dict):
        raise invalid([f"{_PATH}: want an object, a manifest"])
    if problem := _too_much(decoded, values=limits.manifest_values):
        raise invalid([f"{_PATH}: {problem}"])
    try:
        canonical(decoded)
    except ValueError as error:
        raise invalid([f"{_PATH}: a number or text that JSON cannot say"]) from error
    return decoded


def _read_yaml(text: bytes, limits: Limits) -> Any:
    if len(text) > limits.yaml_bytes:
        raise invalid([f"{_PATH}: {len(text)} bytes: in YAML at most {limits.yaml_bytes}; use JSON"])
    try:
        found = parse_documents(text_in(text), source=_PATH)
    except UnicodeDecodeError as error:
        raise invalid([f"{_PATH}: not UTF-8 text"]) from error
    except DocumentError as error:
        # What the reader says of the text may quote it, a Secret's as well: its place is enough.
        place = re.match(rf"{re.escape(_PATH)}(:\d+)*", str(error))
        raise invalid([f"{place.group() if place else _PATH}: neither JSON nor YAML of an object"]) from error
    if len(found) != 1:
        raise invalid([f"{_PATH}: want one object, got {len(found)}"])
    return found[0].content


def render(obj: JSON) -> bytes:
    """An object as its tenant sees it, in YAML: without managed fields and without our marks.

    A large one is written in the part of YAML that is JSON, which takes a thousandth of the time.
    """
    metadata = obj["metadata"]
    shown = {part: metadata[part] for part in _SHOWN if part in metadata}
    shown |= public_marks(metadata)
    document = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": shown}
    document |= {part: value for part, value in obj.items() if part not in document}
    if len(plain := canonical(document)) > _LARGE:
        return plain
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text.encode()


class _Dumper(yaml.SafeDumper):
    """Quotes every string that some reader of YAML could take for something else."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent)


def _too_much(decoded: JSON, *, values: int) -> str:
    """What is wrong with the shape of a document; "" for nothing. It looks no further than that."""
    level: list[Any] = [decoded]
    left = values
    for _ in range(_DEPTH + 1):
        members: list[Any] = []
        for value in level:
            members += value.values() if isinstance(value, dict) else value
            if len(members) > left:
                return f"more than {values} values"
        left -= len(members)
        level = [member for member in members if isinstance(member, dict | list)]
        if not level:
            return ""
    return f"more than {_DEPTH} levels"


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
        raise invalid([f"{_PATH}: want apiVersion {resource.api_version} and kind {resource.kind}, as in type"])
    if problems := confinement.manifest_problems(manifest, resource.kind, _PATH):
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
