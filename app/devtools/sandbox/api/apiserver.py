"""The ASGI application of one cluster: HTTP in, routing, authentication and authorization, HTTP out.

Plain ASGI instead of a framework: paths are data here (custom resources come and go), and every answer, also to
nonsense, has to be a Status. What a request does is `rest`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from app.devtools.sandbox.access.auth import Access, authorize, impersonated
from app.devtools.sandbox.api import discovery, openapi
from app.devtools.sandbox.api.call import BODY_LIMIT, Call, Reply, json_reply
from app.devtools.sandbox.api.failures import (
    NO_SUCH_PATH,
    StatusError,
    bad_request,
    internal,
    method_not_allowed,
    no_such_path,
    not_acceptable,
    not_in_sandbox,
    too_large,
)
from app.devtools.sandbox.api.rest import serve
from app.devtools.sandbox.kinds.builtin import BUILTIN_GROUPS, MISSING_GROUPS
from app.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping

    from app.devtools.sandbox.access.auth import User
    from app.devtools.sandbox.state import ClusterState

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

_log = logging.getLogger(__name__)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_HEALTH = frozenset({"/healthz", "/readyz", "/livez"})


@dataclass(frozen=True, slots=True)
class Target:
    """A resource path taken apart; `name` and `namespace` are "" where the path has none.

    `path` is what follows the subresource `proxy`.
    """

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    segments: tuple[str, ...]
    query: dict[str, str]
    headers: list[tuple[str, str]]
    certificate: bytes | None

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")


class ApiServer:
    """One cluster over ASGI; the connection's client certificate is `scope["state"]["peer_certificate"]` (DER)."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._documents: dict[tuple[int, str], Reply] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        warnings: list[str] = []
        request = _read(scope)
        try:
            reply = await self._answer(request, receive, warnings)
        except StatusError as error:
            reply = json_reply(error.status, status=error.code)
            if error.status["message"] == NO_SUCH_PATH and not self._serves_group(request):
                reply = _unknown_group(request)
        except BerthError as error:
            reply = json_reply(bad_request(str(error)).status, status=400)
        except Exception as error:  # noqa: BLE001 - the HTTP route: nothing may escape but a Status
            _log.exception("request failed: %s %s", scope["method"], scope["path"])
            failed = internal(type(error).__name__)
            reply = json_reply(failed.status, status=500)
        await _send(reply, scope["method"], warnings, receive, send)

    def _serves_group(self, request: _Request) -> bool:
        """Whether the API server itself serves the group. In the others, an unknown path has no Status."""
        match request.segments:
            case ("api", *_):
                return True
            case ("apis", group, *_):
                return group in BUILTIN_GROUPS
        return False

    async def _answer(self, request: _Request, receive: Receive, warnings: list[str]) -> Reply:
        state = self._state
        body = await _read_body(receive)
        user = state.authenticator.user(certificate=request.certificate, authorization=request.header("authorization"))
        user = impersonated(state.authorizer, user, request.headers)
        target = parse_target(request.segments)
        if target is None:
            verb = request.method.lower()
            if request.path not in _HEALTH and request.path != "/version":
                authorize(state.authorizer, user, Access(verb, path=request.path))
            return self._document(request)
        return await self._resource(request, target, user, body, warnings)

    async def _resource(self, request: _Request, target: Target, user: User, body: bytes, warnings: list[str]) -> Reply:
        state = self._state
        verb = _verb(request, target)
        name = target.name or _selected_name(request, verb)
        access = Access(verb, target.group, target.plural, target.subresource, target.namespace, name)
        authorize(state.authorizer, user, access)
        resource = state.registry.find(target.group, target.version, target.plural)
        if resource is None or (target.namespace and not resource.namespaced and target.plural != "namespaces"):
            raise no_such_path()
        if resource.namespaced and not target.namespace and verb not in ("list", "watch") and not resource.virtual:
            raise no_such_path() if target.name or resource.custom else method_not_allowed()
        accept = request.header("accept")
        if accept and not any(kind in accept for kind in ("json", "*/*", "application/*", "yaml")):
            raise not_acceptable(["application/json", "application/yaml"])
        call = Call(
            verb=verb,
            resource=resource,
            namespace=target.namespace if resource.namespaced else "",
            name=target.name,
            subresource=target.subresource,
            user=user,
            query=request.query,
            body=body,
            content_type=request.header("content-type"),
            accept=accept,
            user_agent=request.header("user-agent"),
            warnings=warnings,
            path=target.path,
        )
        return await serve(state, call)

    def _document(self, request: _Request) -> Reply:
        """Discovery, OpenAPI, version and health; raises StatusError 404 for everything else.

        Health and the list of groups answer whatever the method.
        """
        if any(request.path == path or request.path.startswith(f"{path}/") for path in _HEALTH):
            return Reply(200, b"ok", "text/plain; charset=utf-8")
        wide = discovery.wants_aggregated(request.header("accept")) and request.path in ("/api", "/apis")
        key = (self._state.registry.generation, request.path + ("?aggregated" if wide else ""))
        known = self._documents.get(key)
        if known is None:
            if len(self._documents) > 256 or any(generation != key[0] for generation, _ in self._documents):
                self._documents.clear()
            known = self._documents[key] = self._build(request, aggregated=wide)
        if request.method not in ("GET", "HEAD") and request.path != "/apis":
            raise method_not_allowed()
        return known

    def _build(self, request: _Request, *, aggregated: bool) -> Reply:
        registry, segments = self._state.registry, request.segments
        if aggregated:
            return discovery.aggregated(registry, core=segments == ("api",))
        found: Any = None
        match segments:
            case ():
                found = {
                    "paths": sorted({f"/apis/{group}" for group in registry.groups()} | {"/api", "/apis", "/version"})
                }
            case ("version",):
                found = discovery.VERSION
            case ("openapi", "v2"):
                return openapi.version_2()
            case ("openapi", "v3"):
                found = openapi.index(registry)
            case ("openapi", "v3", *rest):
                found = openapi.document(registry, "/".join(rest))
            case ("api" | "apis", *rest):
                found = discovery.describe(registry, segments[0], tuple(rest), request.header("host"))
        if found is None:
            raise no_such_path()
        return json_reply(found)


def parse_target(segments: tuple[str, ...]) -> Target | None:
    """The resource that a path means, None for every path that means none."""
    match segments:
        case ("api", version, _, *_):
            group, rest = "", segments[2:]
        case ("apis", group, version, _, *_):
            rest = segments[3:]
        case _:
            return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    proxied = len(rest) > 2 and rest[2] == "proxy"
    if len(rest) > 3 and not proxied:
        return Target(group, version, "/".join(rest), namespace, "", "")
    plural, name, subresource = (*rest, "", "")[:3]
    if plural == "namespaces" and not group:
        namespace = name
    return Target(group, version, plural, namespace, name, subresource, "/".join(rest[3:]))


def _unknown_group(request: _Request) -> Reply:
    """As plain text, as of a real API server; as a Status where that would have the group."""
    match request.segments:
        case ("apis", group, *_) if group in MISSING_GROUPS:
            return json_reply(not_in_sandbox(f"the API group {group}").status, status=404)
    return Reply(404, b"404 page not found\n", "text/plain; charset=utf-8")


def _verb(request: _Request, target: Target) -> str:
    verb = _VERBS.get(request.method, request.method.lower())
    if verb == "get" and request.query.get("watch", "").lower() in ("true", "1"):
        return "watch"
    if verb == "get" and not target.name:
        return "list"
    return "deletecollection" if verb == "delete" and not target.name else verb


def _selected_name(request: _Request, verb: str) -> str:
    """The one object that a field selector leaves: a rule with resourceNames grants its list and its watch.

    https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
    """
    if verb not in ("list", "watch", "deletecollection"):
        return ""
    terms = request.query.get("fieldSelector", "").split(",")
    found = (re.fullmatch(r"metadata\.name==?([^=!,]+)", term.strip()) for term in terms)
    return next((match[1] for match in found if match is not None), "")


def _read(scope: Message) -> _Request:
    raw = scope.get("raw_path") or scope["path"].encode()
    text = raw.decode("latin-1").partition("?")[0]
    segments = tuple(unquote(part) for part in text.split("/") if part)
    query: dict[str, str] = {}
    for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=200):
        query.setdefault(name, value)
    headers = [(name.decode("latin-1"), value.decode(errors="replace")) for name, value in scope["headers"]]
    certificate = scope.get("state", {}).get("peer_certificate")
    return _Request(scope["method"], "/" + "/".join(segments), segments, query, headers, certificate)


async def _read_body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise bad_request("the request body was cut off")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > BODY_LIMIT:
            raise too_large(BODY_LIMIT)
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)


async def _send(reply: Reply, method: str, warnings: list[str], receive: Receive, send: Send) -> None:
    headers = [(b"content-type", reply.content_type.encode()), (b"cache-control", b"no-cache, private")]
    headers += [(name.encode(), value.encode("latin-1", "replace")) for name, value in reply.headers]
    headers += [(b"warning", _warning(text)) for text in dict.fromkeys(warnings)]
    if isinstance(reply.body, bytes):
        headers.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else reply.body})
        return
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await _stream(reply.body, receive, send)


async def _stream(lines: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send lines until they end or the client goes, whichever comes first."""

    async def pump() -> None:
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        async for line in lines:
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = {asyncio.ensure_future(pump()), asyncio.ensure_future(gone())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await task


def _warning(text: str) -> bytes:
    """One Warning header: quoted, on one line, of bounded size."""
    clean = "".join(char if char.isprintable() else " " for char in text)[:2048]
    quoted = clean.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode()
