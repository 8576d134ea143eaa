"""The service of a tenant's own objects in the infra cluster, and the watch of its Pods there.

Objects without Berth's mark are never read, changed or deleted. Contents of Secrets are returned to their own tenant
only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from app.errors import ApiError
from app.kube.resources import Resource
from app.tenancy.gateway.encoding import field_of
from app.tenancy.gateway.failures import Code, Refused, check_keeper, checked_name, namespace_needed
from app.tenancy.gateway.manifests import (
    Manifest,
    checked_owner,
    owner_of,
    prepare,
    read,
    render,
    resource_of,
    selector_of,
)
from app.tenancy.gateway.service import Service
from app.tenancy.gateway.watching import follow
from app.tenancy.messages import API_OWNER
from app.tenancy.proto import resource_pb as pb
from app.wire import JSON

FIELD_MANAGER = "berth-gateway"


class UniverseResourceService(Service):
    """The objects of the calling tenant, in its namespace."""

    async def Create(self, request: pb.CreateRequest, _context: object) -> pb.CreateResponse:  # noqa: N802
        manifest = await self._manifest(request)
        async with self._turn():
            found, made = await self._find_or_make(manifest)
        if not made:
            message = f"there is a {manifest.resource.kind} {manifest.name!r} already"
            raise Refused(Code.ALREADY_EXISTS, message if owner_of(found) else f"{message}, {_NOT_OURS}")
        return pb.CreateResponse(obj=_message(found))

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
            found, made = await self._find_or_make(manifest)
            if made:
                return pb.UpdateResponse(obj=_message(found))
            what, keeper = f"{manifest.resource.kind} {manifest.name!r}", owner_of(found)
            if not keeper:
                raise Refused(Code.FAILED_PRECONDITION, f"{what} is there, {_NOT_OURS}")
            check_keeper(found, what, keeper=keeper, owner=manifest.owner)
            if not manifest.is_stored_in(found):
                found = await self._apply(manifest, uid=found["metadata"]["uid"])
        return pb.UpdateResponse(obj=_message(found))

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
        if (found := await self._find(manifest.resource, manifest.name)) is not None:
            return found, False
        try:
            return await self._apply(manifest), True
        except ApiError as error:
            # A conflict: another client created it first.
            if error.status != 409 or (found := await self._find(manifest.resource, manifest.name)) is None:
                raise
            return found, False

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
        found = await self._find(resource, name)
        if found is None or not owner_of(found):
            raise Refused(Code.NOT_FOUND, f"there is no {resource.kind} {name!r} among the tenant's resources")
        return found


_entry = field_of(pb.ListResponse, "objects")
_NO_VERSION = "1"
"""Older than every object: the store of a new cluster begins with it."""
_NOT_OURS = "and it was not made by this tenant's resources"


def _asked(request: pb.GetRequest | pb.DeleteRequest) -> tuple[Resource, str]:
    return resource_of(request.type.api_version, request.type.kind), checked_name(request.id.name, "id.name")


def _message(obj: JSON) -> pb.ResourceObject:
    return pb.ResourceObject(obj_spec=render(obj))
