"""The Protocol of the API client that Berth uses. Tests, the sandbox and the transport implement it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from app.kube.resources import Resource
from app.wire import JSON

PatchType = Literal["json", "merge", "strategic"]


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: its objects, the version to watch from, and the token of the next page ("" at the end)."""

    items: list[JSON]
    resource_version: str
    continue_token: str


class KubeClient(Protocol):
    """Every method raises `ApiError` for an answer that is not a success, and for no answer (status 0)."""

    async def list_page(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page: ...

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 270,
    ) -> AsyncIterator[bytes]:
        """The watch's lines, one JSON event each, bookmarks included; ends when the server closes the stream.

        An empty line says only that the stream is open: the transport yields one as soon as the server has
        accepted the watch. The caller closes the iterator (`contextlib.aclosing`) and watches for silence.
        """
        ...

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> JSON: ...

    async def create(self, resource: Resource, body: JSON, *, namespace: str | None = None) -> JSON: ...

    async def replace(
        self, resource: Resource, name: str, body: JSON, *, namespace: str | None = None, subresource: str | None = None
    ) -> JSON: ...

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
        ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: JSON | list[JSON],
        *,
        patch_type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> JSON: ...

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
        ...

    async def post(self, path: str, body: JSON) -> JSON:
        """POST to any API path (subject access reviews, bindings, token requests); `path` comes from our own code."""
        ...
