"""The service of a tenant's own objects in the infra cluster, and the watch of its Pods there.

Objects without Berth's mark are never read, changed or deleted. Contents of Secrets are returned to their own tenant
only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from app.errors import ApiError
from app.kube.names import check_dns_subdomain
from app.kube.resources import PODS, Resource
from app.kube.retry import get_or_none
from app.tenancy.gateway.admitting import label_of_call, tenant_of_call
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.failures import Code, Refused, invalid, no_namespace
from app.tenancy.gateway.feed import follow
from app.tenancy.gateway.listing import Lists
from app.tenancy.gateway.manifests import Manifest, prepare, read, render, resource_of
from app.tenancy.gateway.rule_check import API_OWNER, owner_problems
from app.tenancy.proto import resource_grpc
from app.tenancy.proto import resource_pb as pb
from app.wire import JSON
from app.workloads.model import COMPANION, DAEMON_SETS, RESOURCE_OWNER, SOURCE_HASH

FIELD_MANAGER = "berth-gateway"


class UniverseResourceService(resource_grpc.UniverseResourceServiceServicer):
    """The objects of the calling tenant, in its namespace."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._client, self._turns, self._storing = backend.client, backend.turns, backend.storing
        self._lists = Lists(backend)

    async def Create(self, request: pb.CreateRequest, _context: object) -> pb.CreateResponse:  # noqa: N802
        manifest, namespace = await self._manifest(request.type, request.obj, request.owner)
        async with self._turns.of(namespace):
            found, made = await self._find_or_make(manifest, namespace)
        if not made:
            message = f"there is a {manifest.resource.kind} {manifest.name!r} already"
            raise Refused(Code.ALREADY_EXISTS, message if _owner(found) else f"{message}, {_NOT_OURS}")
        return pb.CreateResponse(obj=_message(found))

    async def Get(self, request: pb.GetRequest, _context: object) -> pb.GetResponse:  # noqa: N802
        resource, namespace = _resource(request.type), tenant_of_call().namespace
        name = _checked(request.id.name)
        async with self._turns.of(namespace):
            found = await self._ours(resource, name, namespace)
        return pb.GetResponse(obj=_message(found))

    async def List(self, request: pb.ListRequest, _context: object) -> pb.ListResponse:  # noqa: N802
        if problems := owner_problems(request.owner, "owner"):
            raise invalid(problems)
        resource, namespace = _resource(request.type), tenant_of_call().namespace
        selector = f"{RESOURCE_OWNER}={request.owner}" if request.owner else RESOURCE_OWNER
        selector += f",!{COMPANION}"
        objects = await self._lists.messages(
            resource,
            _message,
            namespace=namespace,
            selector=selector,
            hint="; list one owner's, or get each by name",
        )
        return pb.ListResponse(objects=objects)

    async def Update(self, request: pb.UpdateRequest, _context: object) -> pb.UpdateResponse:  # noqa: N802
        manifest, namespace = await self._manifest(request.type, request.obj, request.owner)
        async with self._turns.of(namespace):
            found, made = await self._find_or_make(manifest, namespace)
            if made:
                return pb.UpdateResponse(obj=_message(found))
            _check_ours(found, manifest, owner=request.owner or API_OWNER)
            if (found["metadata"].get("annotations") or {}).get(SOURCE_HASH) == manifest.hash:
                return pb.UpdateResponse(obj=_message(found))
            changed = await self._apply(manifest, namespace, uid=found["metadata"]["uid"])
        return pb.UpdateResponse(obj=_message(changed))

    async def Delete(self, request: pb.DeleteRequest, _context: object) -> pb.DeleteResponse:  # noqa: N802
        resource, namespace = _resource(request.type), tenant_of_call().namespace
        name = _checked(request.id.name)
        async with self._turns.of(namespace):
            found = await self._ours(resource, name, namespace)
            try:
                uid = found["metadata"]["uid"]
                await self._client.delete(resource, name, namespace=namespace, uid=uid)
            except ApiError as error:
                # Gone meanwhile, or another object by now: the one that was meant is no more.
                if error.status not in (404, 409):
                    raise
        return pb.DeleteResponse()

    async def Watch(self, _request: pb.WatchRequest, _context: object) -> AsyncGenerator[pb.WatchResponse, None]:  # noqa: N802
        sources = self._backend.sources
        changes = follow(
            sources.companions,
            sources.pods,
            namespace=tenant_of_call().namespace,
            item=lambda message: {"pod": pb.PodSummary.FromString(message)},
        )
        async for change in changes:
            yield pb.WatchResponse(**change)

    async def _manifest(self, kind: pb.ResourceType, obj: pb.ResourceObject, owner: str) -> tuple[Manifest, str]:
        """The checked manifest of a request, and the namespace that it goes to."""
        resource, namespace = _resource(kind), tenant_of_call().namespace
        if problems := owner_problems(owner, "owner"):
            raise invalid(problems)
        text, options = obj.obj_spec, self._backend.options

        def work() -> Manifest:
            manifest = read(text, resource=resource, limits=options.limits)
            return prepare(
                manifest,
                resource=resource,
                namespace=namespace,
                owner=owner or API_OWNER,
                placement=options.placement,
            )

        return await self._backend.readers.read(work, size=len(text), tenant=label_of_call()), namespace

    async def _find_or_make(self, manifest: Manifest, namespace: str) -> tuple[JSON, bool]:
        """The object of this name, of any owner, and whether this call created it."""
        found = await self._find(manifest.resource, manifest.name, namespace)
        if found is not None:
            return found, False
        try:
            return await self._apply(manifest, namespace), True
        except ApiError as error:
            if error.status != 409:
                raise
            # Another client created it first.
            found = await self._find(manifest.resource, manifest.name, namespace)
            if found is None:
                raise
            return found, False

    async def _apply(self, manifest: Manifest, namespace: str, *, uid: str = "") -> JSON:
        """Server-side apply; with `uid` only to the object of that uid, without one only where there is none.

        The API server checks the resourceVersion of an apply only if the object exists, and no object has the first
        version. So an object that another client has created meanwhile gives a conflict. A POST is not used: its fields
        belong to a manager of operation Update, so a later apply could not remove them.
        """
        if manifest.resource == PODS:
            self._storing.room(namespace, manifest.name, manifest.size)
        elif manifest.resource == DAEMON_SETS and not uid:
            self._storing.schedulable(namespace)
        self._storing.write(namespace, manifest.size)
        unless = {"uid": uid} if uid else {"resourceVersion": _NO_VERSION}
        body = {**manifest.body, "metadata": {**manifest.body["metadata"], **unless}}
        try:
            return await self._client.apply(
                manifest.resource,
                manifest.name,
                body,
                namespace=namespace,
                field_manager=FIELD_MANAGER,
                force=bool(uid),
            )
        except ApiError as error:
            if error.not_found:
                raise no_namespace(namespace) from error
            raise

    async def _ours(self, resource: Resource, name: str, namespace: str) -> JSON:
        found = await self._find(resource, name, namespace)
        if found is None or not _owner(found):
            raise Refused(Code.NOT_FOUND, f"there is no {resource.kind} {name!r} among the tenant's resources")
        return found

    async def _find(self, resource: Resource, name: str, namespace: str) -> JSON | None:
        return await get_or_none(self._client, resource, name, namespace=namespace)


_NO_VERSION = "1"
"""Older than every object: the store of a new cluster begins with it."""
_NOT_OURS = "and it was not made by this tenant's resources"


def _check_ours(found: JSON, manifest: Manifest, *, owner: str) -> None:
    what = f"{manifest.resource.kind} {manifest.name!r}"
    keeper = _owner(found)
    if not keeper:
        raise Refused(Code.FAILED_PRECONDITION, f"{what} is there, {_NOT_OURS}")
    if keeper != owner:
        raise Refused(Code.FAILED_PRECONDITION, f"{what} is kept by {keeper!r}, not by {owner!r}: delete it first")
    if found["metadata"].get("deletionTimestamp"):
        raise Refused(Code.ABORTED, f"{what} is being deleted; try again")


def _owner(found: JSON) -> str:
    """Who keeps an object; "" for one that this service did not make."""
    labels = found["metadata"].get("labels") or {}
    return "" if COMPANION in labels else str(labels.get(RESOURCE_OWNER) or "")


def _resource(kind: pb.ResourceType) -> Resource:
    return resource_of(kind.api_version, kind.kind)


def _message(obj: JSON) -> pb.ResourceObject:
    return pb.ResourceObject(obj_spec=render(obj))


def _checked(name: str) -> str:
    try:
        return check_dns_subdomain(name)
    except ValueError as error:
        raise invalid([f"id.name: {error}"]) from error
