"""The API client that Berth uses: resources into paths, queries and content types. Retries are the callers'.

Objects stay plain dictionaries, without the models of the official client. `app.kube.transport` sends the requests.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from copy import copy
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from app.errors import ApiError
from app.kube.resources import Resource
from app.kube.turns import request_place
from app.wire import JSON, decode_list

if TYPE_CHECKING:  # both load the official client
    from app.kube.credentials import Impersonation
    from app.kube.fencing import Fence
    from app.kube.transport import Session

PatchType = Literal["json", "merge", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]
_PATCH_TYPES: dict[PatchType, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY = "application/apply-patch+yaml"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


PAGE_BYTES = 32 * 1024 * 1024
"""Of one page of a list. Objects are written by users and may have some MiB; decoded, a page is several times larger.
"""


class Page(NamedTuple):
    """One page of a list: its objects, the version to watch from, and the token of the next page ("" at the end).

    `skipped` counts objects that are nested too deeply to be decoded; they are not in `items`. `limit` is how many were
    asked for.
    """

    items: list[JSON]
    resource_version: str
    continue_token: str
    skipped: int = 0
    limit: int = 0


class Request(NamedTuple):
    """`verb` is the HTTP method, or WATCH for a GET whose answer is a stream. Empty values of `query` are left out.

    `acting_as` is the user whose request it is to be; None for our own. `accept` is the form of the answer.
    """

    verb: str
    path: str
    query: Mapping[str, str] = MappingProxyType({})
    body: JSON | list[JSON] | None = None
    content_type: str = "application/json"
    acting_as: Impersonation | None = None
    accept: str = "application/json"

    @property
    def what(self) -> str:
        """Names the request in messages."""
        return f"{self.verb} {self.path}"


class KubeClient:
    """Every method raises `ApiError` for an answer that is not a success, and for no answer (status 0)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._fence: Fence | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, also for those clients that `within` made."""
        await self._session.close()

    @property
    def source(self) -> str:
        """What named the API server, for messages: the kubeconfig and its context, or the service account."""
        return self._session.source

    @property
    def heard(self) -> bool:
        """Whether the API server has answered anything yet."""
        return self._session.heard

    @property
    def default_namespace(self) -> str:
        """The namespace of the kubeconfig's context, or of the Pod; that of objects whose namespace is not given."""
        return self._session.namespace

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self._session.server

    async def server_time(self) -> datetime | None:
        """What the API server's clock says, in whole seconds (UTC); None where the answer does not say it."""
        async with await self._session.open(Request("GET", "/version")) as response:
            try:
                return parsedate_to_datetime(response.headers.get("Date", "")).astimezone(UTC)
            except ValueError:
                return None

    def within(self, fence: Fence) -> Self:
        """The same client for one term of leadership: its writes raise `LeaseLost` after the term."""
        fenced = copy(self)
        fenced._fence = fence  # noqa: SLF001 - of the same class
        return fenced

    def passing(self) -> AbstractAsyncContextManager[None]:
        """Around a write to another server, which has to stay within the same term."""
        return nullcontext() if self._fence is None else self._fence.passing()

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
        """At most `limit` objects (0: all), or fewer where so many have more than `PAGE_BYTES`."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        while True:
            query |= {"limit": str(limit or ""), "continue": continue_token}
            request = Request("GET", resource.path(namespace=namespace), query)
            try:
                most = PAGE_BYTES if limit > 1 else None
                async with request_place():
                    answer = await self._session.json(request, decode=decode_list, most=most)
                break
            except ApiError as error:
                if not error.answer_too_large:
                    raise
                limit = max(1, limit // 8)
        metadata, items = answer.get("metadata") or {}, answer.get("items") or []
        if not isinstance(metadata, dict) or not isinstance(items, list):
            raise ApiError(f"{request.what}: the answer is not a list", status=0)
        found = [item for item in items if item is not None]
        for item in found:
            # Lists leave out what every item shares; put it back so that an object reads the same from anywhere.
            if isinstance(item, dict):
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
        version, token = str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or "")
        return Page(found, version, token, len(items) - len(found), limit)

    async def metadata(self, resource: Resource, *, namespace: str, label_selector: str) -> list[JSON]:
        """The metadata of objects; the API server leaves out all else, such as what is in a Secret."""
        request = Request(
            "GET", resource.path(namespace=namespace), {"labelSelector": label_selector}, accept=_METADATA
        )
        async with request_place():
            answer = await self._session.json(request, decode=decode_list, most=PAGE_BYTES)
        return [item for item in answer.get("items") or () if item]

    def watch(
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
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
        query |= {"timeoutSeconds": str(timeout_seconds)}
        query |= {"labelSelector": label_selector, "fieldSelector": field_selector}
        return self._session.lines(Request("WATCH", resource.path(namespace=namespace), query))

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> JSON:
        return await self.get_path(resource.path(namespace=namespace, name=name))

    async def table(
        self, resource: Resource, name: str = "", *, namespace: str | None = None, label_selector: str = ""
    ) -> JSON:
        """What `kubectl get` shows of the object, or ("") of all of them: a Table of `meta.k8s.io/v1`."""
        path = resource.path(namespace=namespace, name=name or None)
        async with request_place():
            return await self._session.json(Request("GET", path, {"labelSelector": label_selector}, accept=_TABLE))

    async def create(
        self,
        resource: Resource,
        body: JSON,
        *,
        namespace: str | None = None,
        acting_as: Impersonation | None = None,
    ) -> JSON:
        """With `acting_as` the API server takes it for a request of that user, if we may impersonate this one."""
        request = Request("POST", resource.path(namespace=namespace), body=body, acting_as=acting_as)
        return await self._write(request)

    async def dry_run(self, resource: Resource, body: JSON, *, namespace: str | None = None) -> tuple[JSON, list[str]]:
        """The object as the API server would store it, after all its admission, and the warnings. Nothing is written.

        Unknown fields are warnings. Of a refusal, the error has the warnings.
        """
        warnings: list[str] = []
        query = {"dryRun": "All", "fieldValidation": "Warn"}
        request = Request("POST", resource.path(namespace=namespace), query, body)
        async with request_place():
            return await self._session.json(request, warnings=warnings), warnings

    async def replace(
        self, resource: Resource, name: str, body: JSON, *, namespace: str | None = None, subresource: str | None = None
    ) -> JSON:
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._write(Request("PUT", path, body=body))

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
        return await self._write(Request("PATCH", path, query, body, _APPLY))

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: JSON | list[JSON],
        *,
        patch_type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
        version: str | None = None,
    ) -> JSON:
        """With a `version`, raises ApiError with a conflict where the object has another resourceVersion."""
        if version is not None:
            body = _of_version(body, version)
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._write(Request("PATCH", path, body=body, content_type=_PATCH_TYPES[patch_type]))

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_period_seconds: int | None = None,
        propagation_policy: Propagation | None = None,
    ) -> JSON:
        """Deletes the object, only where its uid is `uid` if one is given.

        The answer is a Status where the object is gone, else the object, which finalizers or its grace period keep.
        """
        body: JSON = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            body["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy is not None:
            body["propagationPolicy"] = propagation_policy
        return await self._write(Request("DELETE", resource.path(namespace=namespace, name=name), body=body))

    async def post(self, path: str, body: JSON) -> JSON:
        """POST to any API path (subject access reviews, bindings, token requests); `path` comes from our own code."""
        return await self._write(Request("POST", path, body=body))

    async def get_path(self, path: str) -> JSON:
        """GET of any API path that answers JSON (`/version`, discovery); `path` comes from our own code."""
        async with request_place():
            return await self._session.json(Request("GET", path))

    async def relayed(self, path: str) -> bytes:
        """GET of a path that the API server relays (`…/pods/NAME:PORT/proxy/…`): the beginning of the answer's body.

        The server behind it may answer with any HTTP status. An answer of the API server itself is an ApiError, and so
        are 401 and 403.
        """
        return await self._session.relayed(Request("GET", path))

    async def _write(self, request: Request) -> JSON:
        async with request_place(), self.passing():
            return await self._session.json(request)


def _of_version(patch: JSON | list[JSON], version: str) -> JSON | list[JSON]:
    """The patch with a resourceVersion. An API server compares it with that of the object, as it does for a PUT."""
    if isinstance(patch, list):
        return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *patch]
    return {**patch, "metadata": {**(patch.get("metadata") or {}), "resourceVersion": version}}
