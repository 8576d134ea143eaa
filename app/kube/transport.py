"""`AioKubeClient`: the `KubeClient` protocol over the official asyncio client, without its models.

It knows the paths, queries and content types; `app.kube.session` knows how to send them. Objects stay plain
dictionaries. Patience is the callers': nothing here waits for a server to come back.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self

from app.errors import ApiError
from app.kube.answers import error_of_transport
from app.kube.client import KubeClient, Page, PatchType
from app.kube.credentials import Credentials, load_credentials
from app.kube.impersonation import Impersonation
from app.kube.lines import LineSplitter
from app.kube.resources import Resource
from app.kube.session import TRANSPORT_FAULTS, Session
from app.wire import JSON

DEADLINE = 10.0
_PATCH_TYPES: dict[PatchType, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY = "application/apply-patch+yaml"


async def connect(
    *,
    kubeconfig: str | None,
    context: str | None = None,
    deadline: float = DEADLINE,
    impersonate: Impersonation | None = None,
) -> AioKubeClient:
    """A client for `kubeconfig`; None means the mounted service account, else the default kubeconfig.

    `impersonate` goes before what the kubeconfig says in `as`. Raises `UsageError` where there is no usable
    configuration. Nothing is sent yet.
    """
    credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    return AioKubeClient(credentials, deadline=deadline, impersonate=impersonate)


class AioKubeClient(KubeClient):
    """See `app.kube.client.KubeClient`. `deadline` bounds each request in seconds, its answer's body included.

    A watch has `deadline` for its first byte and no bound after that. `reload_interval` is the least time in seconds
    between two reloads that refused credentials force, so that a plugin does not run for every request.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        deadline: float = DEADLINE,
        reload_interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        impersonate: Impersonation | None = None,
    ) -> None:
        self._session = Session(
            credentials, deadline=deadline, reload_interval=reload_interval, clock=clock, impersonate=impersonate
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; watches under way end with an `ApiError`."""
        await self._session.close()

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._session.server

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
    ) -> AsyncIterator[bytes]:
        path = resource.path(namespace=namespace)
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
        query |= {"timeoutSeconds": str(timeout_seconds)}
        query |= {"labelSelector": label_selector, "fieldSelector": field_selector}
        what = f"WATCH {path}"
        response = await self._session.open("GET", path, query=query, what=what)
        try:
            yield b""
            splitter = LineSplitter()
            async for chunk in response.content.iter_any():
                for line in splitter.feed(chunk):
                    yield line
            if rest := splitter.rest().strip():
                yield rest
        except (*TRANSPORT_FAULTS, RuntimeError) as error:
            # A stream whose connection went before we waited for more of it says no more than RuntimeError.
            raise error_of_transport(what, error) from error
        finally:
            response.close()

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> JSON:
        return await self._session.json("GET", resource.path(namespace=namespace, name=name))

    async def create(self, resource: Resource, body: JSON, *, namespace: str | None = None) -> JSON:
        return await self._session.json("POST", resource.path(namespace=namespace), body=body)

    async def replace(
        self, resource: Resource, name: str, body: JSON, *, namespace: str | None = None, subresource: str | None = None
    ) -> JSON:
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._session.json("PUT", path, body=body)

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
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        return await self._session.json("PATCH", path, query=query, body=body, content_type=_APPLY)

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
        return await self._session.json("PATCH", path, body=body, content_type=_PATCH_TYPES[patch_type])

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        body: JSON = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            body["gracePeriodSeconds"] = grace_period_seconds
        await self._session.json("DELETE", resource.path(namespace=namespace, name=name), body=body)

    async def post(self, path: str, body: JSON) -> JSON:
        return await self._session.json("POST", path, body=body)

    async def get_path(self, path: str) -> JSON:
        """GET of any API path that answers JSON (`/version`, discovery); `path` comes from our own code."""
        return await self._session.json("GET", path)

    async def server_time(self) -> datetime | None:
        """What the API server's clock says, in whole seconds (UTC); None where the answer does not say it."""
        response = await self._session.open("GET", "/version", query={}, what="GET /version")
        async with response:
            try:
                return parsedate_to_datetime(response.headers.get("Date", "")).astimezone(UTC)
            except ValueError:
                return None
