"""The service of a tenant's own objects in the infra cluster, and the watch of its Pods there.

Objects without Berth's mark are never read, changed or deleted. Contents of Secrets are returned to their own tenant
only. Manifests are read from JSON or YAML, checked to be stored, and rendered as YAML: no message quotes a value.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from app.errors import ApiError
from app.kube.documents import DocumentError, parse_documents
from app.kube.resources import CONFIG_MAPS, DAEMON_SETS, PODS, SECRETS, Resource
from app.placement.model import PlacementOptions
from app.tenancy.gateway.confining import Confinement
from app.tenancy.gateway.failures import Code, Refused, check_keeper, checked_name, invalid, namespace_needed
from app.tenancy.gateway.reading import field_of
from app.tenancy.gateway.service import Service, follow
from app.tenancy.gateway.settings import Limits
from app.tenancy.messages import API_OWNER, canonical, owner_problems, public_marks
from app.tenancy.proto import resource_pb as pb
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
FIELD_MANAGER = "berth-gateway"
_entry = field_of(pb.ListResponse, "objects")
_NO_VERSION = "1"
"""Older than every object: the store of a new cluster begins with it."""
_NOT_OURS = "and it was not made by this tenant's resources"


class UniverseResourceService(Service):
    """The objects of the calling tenant, in its namespace."""

    async def Create(self, request: pb.CreateRequest, _context: object) -> pb.CreateResponse:  # noqa: N802
        manifest = await self._manifest(request)
        async with self._turn():
            obj, made = await self._find_or_make(manifest)
        if not made:
            message = f"there is a {manifest.resource.kind} {manifest.name!r} already"
            raise Refused(Code.ALREADY_EXISTS, message if owner_of(obj) else f"{message}, {_NOT_OURS}")
        return pb.CreateResponse(obj=_message(obj))

    async def Get(self, request: pb.GetRequest, _context: object) -> pb.GetResponse:  # noqa: N802
        resource, name = _asked(request)
        async with self._turn():
            return pb.GetResponse(obj=_message(await self._ours(resource, name)))

    async def List(self, request: pb.ListRequest, _context: object) -> bytes:  # noqa: N802
        selector, resource = selector_of(request.owner), resource_of(request.type.api_version, request.type.kind)
        hint = "list one owner's, or get each by name"
        return await self._listed(resource, _message, _entry, selector=selector, hint=hint)

    async def Update(self, request: pb.UpdateRequest, _context: object) -> pb.UpdateResponse:  # noqa: N802
        manifest = await self._manifest(request)
        async with self._turn():
            obj, made = await self._find_or_make(manifest)
            if made:
                return pb.UpdateResponse(obj=_message(obj))
            what, keeper = f"{manifest.resource.kind} {manifest.name!r}", owner_of(obj)
            if not keeper:
                raise Refused(Code.FAILED_PRECONDITION, f"{what} is there, {_NOT_OURS}")
            check_keeper(obj, what, keeper=keeper, owner=manifest.owner)
            if not manifest.is_stored_in(obj):
                obj = await self._apply(manifest, uid=obj["metadata"]["uid"])
        return pb.UpdateResponse(obj=_message(obj))

    async def Delete(self, request: pb.DeleteRequest, _context: object) -> pb.DeleteResponse:  # noqa: N802
        resource, name = _asked(request)
        async with self._turn():
            await self._delete(resource, await self._ours(resource, name))
        return pb.DeleteResponse()

    def Watch(self, _request: pb.WatchRequest, _context: object) -> AsyncGenerator[bytes, None]:  # noqa: N802
        stores = (self._backend.sources.companions, self._backend.sources.pods)
        return follow(*stores, namespace=self._namespace, answer=pb.WatchResponse, item="pod")

    async def _manifest(self, request: pb.CreateRequest | pb.UpdateRequest) -> Manifest:
        resource, namespace = resource_of(request.type.api_version, request.type.kind), self._namespace
        owner = checked_owner(request.owner) or API_OWNER
        text, limits, placement = request.obj.obj_spec, self._backend.limits, self._backend.placement

        def work() -> Manifest:
            decoded = read(text, kind=resource.kind, limits=limits)
            return prepare(decoded, resource=resource, namespace=namespace, owner=owner, placement=placement)

        return await self._read(work, size=len(text))

    async def _find_or_make(self, manifest: Manifest) -> tuple[JSON, bool]:
        """The object of this name, of any owner, and whether this call created it."""
        if (obj := await self._find(manifest.resource, manifest.name)) is not None:
            return obj, False
        try:
            return await self._apply(manifest), True
        except ApiError as error:
            # A conflict: another client created it first.
            if error.status != 409 or (obj := await self._find(manifest.resource, manifest.name)) is None:
                raise
            return obj, False

    async def _apply(self, manifest: Manifest, *, uid: str = "") -> JSON:
        """Server-side apply; with `uid` only to the object of that uid, without one only where there is none.

        The API server checks the resourceVersion of an apply only if the object exists, and no object has the first
        version. So an object that another client has created meanwhile gives a conflict. A POST is not used: its fields
        belong to a manager of operation Update, so a later apply could not remove them.
        """
        namespace = self._namespace
        if manifest.resource.kind == "Pod":
            self._storing.room(namespace, manifest.name, manifest.size)
        elif manifest.resource.kind == "DaemonSet" and not uid:
            self._storing.schedulable(namespace)
        self._storing.write(namespace, manifest.size)
        unless = {"uid": uid} if uid else {"resourceVersion": _NO_VERSION}
        body = {**manifest.body, "metadata": {**manifest.body["metadata"], **unless}}
        with namespace_needed(namespace):
            return await self._client.apply(
                manifest.resource,
                manifest.name,
                body,
                namespace=namespace,
                field_manager=FIELD_MANAGER,
                force=bool(uid),
            )

    async def _ours(self, resource: Resource, name: str) -> JSON:
        obj = await self._find(resource, name)
        if obj is None or not owner_of(obj):
            raise Refused(Code.NOT_FOUND, f"there is no {resource.kind} {name!r} among the tenant's resources")
        return obj


def _asked(request: pb.GetRequest | pb.DeleteRequest) -> tuple[Resource, str]:
    return resource_of(request.type.api_version, request.type.kind), checked_name(request.id.name, "id.name")


def _message(obj: JSON) -> pb.ResourceObject:
    return pb.ResourceObject(obj_spec=render(obj))


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
        documents = parse_documents(text_in(text), source=_PATH)
    except UnicodeDecodeError as error:
        raise invalid([f"{_PATH}: not UTF-8 text"]) from error
    except DocumentError as error:
        # What the reader says of the text may quote it, a Secret's as well: its place is enough.
        place = re.match(rf"{re.escape(_PATH)}(:\d+)*", str(error))
        raise invalid([f"{place.group() if place else _PATH}: neither JSON nor YAML of an object"]) from error
    if len(documents) != 1:
        raise invalid([f"{_PATH}: want one object, got {len(documents)}"])
    return documents[0].content


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

    def is_stored_in(self, obj: JSON) -> bool:
        """Whether the object was made from the same, so that nothing has to be written."""
        return (obj["metadata"].get("annotations") or {}).get(SOURCE_HASH) == self.hash


def resource_of(api_version: str, kind: str) -> Resource:
    """INVALID_ARGUMENT for a type that tenants cannot have."""
    resource = RESOURCES.get((api_version, kind))
    if resource is None:
        kinds = ", ".join(f"{version} {name}" for version, name in RESOURCES)
        raise invalid([f"type: {api_version!r} {kind!r} is not served: use one of {kinds}"])
    return resource


def checked_owner(owner: str) -> str:
    """INVALID_ARGUMENT for what cannot be the owner of an object."""
    if problems := owner_problems(owner, "owner"):
        raise invalid(problems)
    return owner


def selector_of(owner: str) -> str:
    """The label selector of what an owner keeps, "" for any owner's; INVALID_ARGUMENT for what cannot be one."""
    checked_owner(owner)
    return f"{RESOURCE_OWNER}={owner},!{COMPANION}" if owner else f"{RESOURCE_OWNER},!{COMPANION}"


def owner_of(obj: JSON) -> str:
    """Who keeps an object; "" for one that was not made of a tenant's manifest."""
    labels = obj["metadata"].get("labels") or {}
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
