"""A client that reads for one caller: what is in memory from there, and nothing that the caller may not read.

Checks, sections and judges use it as they use any client. It changes nothing in the cluster.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, NoReturn

from app.errors import ApiError
from app.kube.client import KubeClient, Page, Request
from app.kube.reflector import Scope
from app.kube.resources import PODS, Resource
from app.ui.footprints import Footprint
from app.ui.rights import KEPT, Right, Rights
from app.ui.stores import FRESH, Stores
from app.wire import JSON

_ACCESS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
_SELF = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_DRY = "?dryRun=All"


class Reader(KubeClient):
    """`footprint` notes what is read, and by which rights."""

    def __init__(self, stores: Stores, rights: Rights, footprint: Footprint) -> None:
        super().__init__(stores.client._session)  # noqa: SLF001 - of the same class
        self._stores, self._rights, self._footprint = stores, rights, footprint

    async def close(self) -> None:
        """The connections are those of the stores, which go on."""

    async def list_page(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page:
        """As of any client, if the caller may list the objects of the namespace."""
        await self._check(Right("list", resource, (namespace or "") if resource.namespaced else ""))
        self._footprint.read(Scope(resource, namespace, "", label_selector, field_selector))
        try:
            return await self._stores.page(
                resource,
                namespace=namespace,
                labels=label_selector,
                fields=field_selector,
                limit=limit,
                token=continue_token,
            )
        finally:
            self._hold(resource)

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> JSON:
        """As of any client, if the caller may get the object."""
        home = (namespace or "") if resource.namespaced else ""
        await self._check(Right("get", resource, home, name))
        self._footprint.read(Scope(resource, home, name))
        try:
            return await self._stores.get(resource, name, namespace)
        finally:
            self._hold(resource, home, name)

    async def get_path(self, path: str) -> JSON:
        """Of what is no object: versions and discovery. Raises ApiError for any other path."""
        parts = path.strip("/").split("/")
        if (
            parts != ["version"]
            and not (parts[0] == "api" and len(parts) <= 2)
            and not (parts[0] == "apis" and len(parts) <= 3)
        ):
            self._refuse(f"GET {path}")
        await self._check(Right("get", None, path=path))
        self._footprint.holds(FRESH)
        return await super().get_path(path)

    async def relayed(self, path: str) -> bytes:
        """As of any client, if the caller may use the API server as a proxy."""
        parts = path.split("/")
        if len(parts) < 8 or parts[1:4] != ["api", "v1", "namespaces"] or parts[5] != "pods" or parts[7] != "proxy":
            self._refuse(f"GET {path}")
        await self._check(Right("get", PODS, parts[4], parts[6].partition(":")[0], "proxy"))
        self._footprint.holds(FRESH)
        return await super().relayed(path)

    async def metadata(self, resource: Resource, *, namespace: str, label_selector: str) -> list[JSON]:
        """Raises ApiError: the page reads no Secrets."""
        self._refuse(f"GET {resource.path(namespace=namespace)}?labelSelector={label_selector}")

    def watch(self, resource: Resource, **_options: Any) -> AsyncGenerator[bytes]:
        """Raises ApiError: the stores watch."""
        self._refuse(f"WATCH {resource.plural}")

    async def _write(self, request: Request) -> JSON:
        """Questions alone. Raises ApiError for what would change something."""
        if request.verb == "POST" and request.path == _ACCESS.path():
            await self._check(Right("create", _ACCESS))
        elif not (
            request.verb == "POST" and self._rights.tries and (request.path == _SELF or request.path.endswith(_DRY))
        ):
            self._refuse(request.what)
        self._footprint.holds(KEPT)
        return await super()._write(request)

    async def _check(self, right: Right) -> None:
        """Raises ApiError, as an API server words it, if the caller has no such right."""
        if await self._rights.allowed(right):
            self._footprint.rights.add(right)
            return
        self._footprint.holds(KEPT)  # it may be granted
        raise right.refusal

    def _hold(self, resource: Resource, namespace: str = "", name: str = "") -> None:
        """What is not watched is read again after some seconds."""
        if not self._stores.knows(resource, namespace, name):
            self._footprint.holds(FRESH)

    def _refuse(self, what: str) -> NoReturn:
        raise ApiError(f"{what}: the page only reads", status=403, reason="Forbidden")
