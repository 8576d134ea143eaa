"""The API client that Berth uses: resources into paths, queries and content types.

Objects stay plain dictionaries, without the models of the official client. `app.kube.session` sends the requests;
`app.kube.transport` connects. Retries are the callers': nothing here waits for a server to come back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from app.errors import ApiError
from app.kube.resources import Resource
from app.wire import JSON

if TYPE_CHECKING:  # both load the official client
    from app.kube.fencing import Fence
    from app.kube.session import Session

PatchType = Literal["json", "merge", "strategic"]
_PATCH_TYPES: dict[PatchType, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: its objects, the version to watch from, and the token of the next page ("" at the end)."""

    items: list[JSON]
    resource_version: str
    continue_token: str


class KubeClient:
    """Every method raises `ApiError` for an answer that is not a success, and for no answer (status 0)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._fence: Fence | None = None

    def within(self, fence: Fence) -> Self:
        """The same client for one term of leadership: its writes raise `LeaseLost` after the term."""
        fenced = copy(self)
        fenced._fence = fence  # noqa: SLF001 - of the same class
        return fenced

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
        query: dict[str, str] = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query |= {"limit": str(limit) if limit else "", "continue": continue_token}
        answer = await self._session.json("GET", resource.path(namespace=namespace), query=query)
        metadata, items = answer.get("metadata") or {}, answer.get("items") or []
        if not isinstance(metadata, dict) or not isinstance(items, list):
            raise ApiError(f"GET {resource.path(namespace=namespace)}: the answer is no list", status=0)
        for item in items:
            # Lists leave out what every item shares; put it back so that an object reads the same from anywhere.
            if isinstance(item, dict):
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
        return Page(items, str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or ""))

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 270,
    ) -> AsyncGenerator[bytes]:
        """The watch's lines, one JSON event each, bookmarks included; ends when the server closes the stream.

        An empty line says only that the stream is open: the first one comes as soon as the server has accepted the
        watch. The caller closes the iterator (`contextlib.aclosing`) and watches for silence.
        """
        path = resource.path(namespace=namespace)
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
        query |= {"timeoutSeconds": str(timeout_seconds)}
        query |= {"labelSelector": label_selector, "fieldSelector": field_selector}
        async with aclosing(self._session.lines(path, query)) as lines:
            async for line in lines:
                yield line

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> JSON:
        return await self._session.json("GET", resource.path(namespace=namespace, name=name))

    async def create(self, resource: Resource, body: JSON, *, namespace: str | None = None) -> JSON:
        return await self._write("POST", resource.path(namespace=namespace), body=body)

    async def replace(
        self, resource: Resource, name: str, body: JSON, *, namespace: str | None = None, subresource: str | None = None
    ) -> JSON:
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._write("PUT", path, body=body)

    async def apply(
        self,
        resource: Resource,
        name: str,
        body: JSON,
        *,
        namespace: str | None = None,
        field_manager: str = "berth",
        force: bool = True,
        subresource: str | None = None,
    ) -> JSON:
        """Server-side apply of the fields in `body`, which carries apiVersion and kind."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        return await self._write("PATCH", path, query=query, body=body, content_type=_APPLY)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: JSON | list[JSON],
        *,
        patch_type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> JSON:
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._write("PATCH", path, body=body, content_type=_PATCH_TYPES[patch_type])

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Deletes the object, only where its uid is `uid` if one is given."""
        body: JSON = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            body["gracePeriodSeconds"] = grace_period_seconds
        await self._write("DELETE", resource.path(namespace=namespace, name=name), body=body)

    async def post(self, path: str, body: JSON) -> JSON:
        """POST to any API path (subject access reviews, bindings, token requests); `path` comes from our own code."""
        return await self._write("POST", path, body=body)

    async def get_path(self, path: str) -> JSON:
        """GET of any API path that answers JSON (`/version`, discovery); `path` comes from our own code."""
        return await self._session.json("GET", path)

    async def _write(self, method: str, path: str, **request: Any) -> JSON:
        async with nullcontext() if self._fence is None else self._fence.passing():
            return await self._session.json(method, path, **request)
