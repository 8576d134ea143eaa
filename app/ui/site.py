"""The application: pages, their JSON, streams of what changes in them, and the answers to what is refused.

Everything that it sends forbids scripts, styles and requests that are not its own.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import BerthError
from app.ui.frames import Frame, Frames, frame_of
from app.ui.pages import Pages
from app.ui.view import Asked, Model, Source, View, schema_of
from app.ui.visitors import COOKIE, LONGEST, Access, Refused, Visitor

log = structlog.get_logger(__name__)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # without any, forms are sent with `Origin: null`
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_FORM = 16 * 1024
"""Bytes of a form."""
FORM_SECONDS = 10.0
"""Seconds for a form: it may be sent without a token, and a request under way is never cut off for another."""
_FIELDS = 8
_TEXT = 128 * 1024
"""Bytes of a form with a text that a view judges: each of its characters may be sent as three."""
_JUDGED = 2
"""Texts that are judged at a time."""
_QUERY = 8 * 1024
PACE = 1.0
"""Seconds between two updates of a stream, at least; and never less than the time that the update before took."""
LOOK = 10.0
"""Seconds after which a stream is authorized again."""
LIFE = 300.0
"""Seconds after which a stream ends; a browser opens it again."""
STREAMS = 32
"""Streams of one caller at a time."""


class Site:
    """`sources` are the clusters, the first of which is shown if none is named."""

    def __init__(
        self,
        sources: Sequence[Source],
        access: Access,
        views: Sequence[View],
        *,
        look: float = LOOK,
        pace: float = PACE,
        life: float = LIFE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = {source.name: source for source in sources}
        self._access = access
        self._views = {view.name: view for view in views}
        self._look, self._pace, self._life = look, pace, life
        self._pages, self._frames = Pages(views), Frames(self._views, clock=clock)
        self._clock = clock
        self._streams: dict[str, int] = {}
        self._judging = asyncio.Semaphore(_JUDGED)
        self._static = {
            entry.name: entry.read_bytes()
            for entry in files("app.ui").joinpath("static").iterdir()
            if entry.name.rpartition(".")[2] in _TYPES
        }
        self.app: ASGIApp = Guarded(
            Starlette(
                routes=[
                    Route("/", self._answering(self._root)),
                    Route("/static/{name}", self._asset),
                    Route("/login", self._answering(self._login), methods=["GET", "POST"]),
                    Route("/logout", self._answering(self._logout), methods=["POST"]),
                    Route("/api", self._answering(self._index)),
                    Route("/api/schema", self._answering(self._schema)),
                    Route("/api/{view}", self._answering(self._json)),
                    Route("/events/{view}", self._answering(self._stream)),
                    Route("/{view}", self._answering(self._page)),
                    *self._judging_routes(),
                ]
            )
        )

    def _judging_routes(self) -> Iterator[Route]:
        """Of views that judge a text: no other answers POST."""
        for view in self._views.values():
            if view.judge is not None:
                yield Route(f"/api/{view.name}", self._answering(self._judged_json), methods=["POST"])
                yield Route(f"/{view.name}", self._answering(self._judged_page), methods=["POST"])

    def _answering(self, handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """The handler behind the checks of each request; what it refuses becomes an answer."""

        async def answer(request: Request) -> Response:
            try:
                self._access.check(request)
                _check_length(request)
                return await handle(request)
            except Refused as refusal:
                return self._refusal(request, refusal)
            except BerthError as error:
                return self._refusal(request, Refused(503, str(error), delay=1.0))

        return answer

    def _refusal(self, request: Request, refusal: Refused) -> Response:
        if refusal.status == 401 and self._access.login and _wants_html(request):
            return RedirectResponse("/login", 303)
        headers = {"retry-after": str(max(1, round(refusal.delay)))} if refusal.delay else {}
        if refusal.status == 401:
            headers["www-authenticate"] = "Bearer"
        if _wants_html(request):
            return _html(self._pages.refused(str(refusal)), refusal.status, headers)
        return _json({"error": str(refusal)}, refusal.status, headers)

    async def _root(self, request: Request) -> Response:  # noqa: ARG002
        return RedirectResponse(f"/{next(iter(self._views))}", 303)

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        content = self._static.get(name)
        if content is None:
            return Response("not found", 404, media_type="text/plain")
        return Response(content, headers={"cache-control": "max-age=300"}, media_type=_TYPES[name.rpartition(".")[2]])

    async def _page(self, request: Request) -> Response:
        asked, view, visitor = await self._asked(request)
        frame = await self._frames.of(asked)
        words = urlencode({**dict(request.query_params), "seen": frame.digest})
        html = self._pages.page(asked, view, frame, visitor=visitor.name, stream=f"/events/{view.name}?{words}")
        return _html(html, 503 if frame.problem else 200)

    async def _json(self, request: Request) -> Response:
        asked, _, _ = await self._asked(request)
        frame = await self._frames.of(asked)
        if frame.problem:  # nothing of the model says how old it is
            return _json({"error": frame.problem}, 503)
        return Response(msgspec.json.encode(frame.model), media_type="application/json")

    async def _judged_page(self, request: Request) -> Response:
        """The page with what became of a text; nothing of it is live."""
        asked, view, visitor, model = await self._judged(request)
        return _html(self._pages.page(asked, view, frame_of(model), visitor=visitor.name, stream=""))

    async def _judged_json(self, request: Request) -> Response:
        _, _, _, model = await self._judged(request)
        return Response(msgspec.json.encode(model), media_type="application/json")

    async def _judged(self, request: Request) -> tuple[Asked, View, Visitor, Model]:
        asked, view, visitor = await self._asked(request)
        if view.judge is None:
            raise Refused(405, f"view {view.name} takes no text")
        text = (await _form(request, _TEXT)).get("text", "")
        async with self._judging:
            return asked, view, visitor, await view.judge(asked, text)

    async def _index(self, request: Request) -> Response:
        await self._access.visitor(request)
        views = [
            {
                "name": view.name,
                "title": view.title,
                "text": view.text,
                "path": f"/api/{view.name}",
                "parameters": {parameter.name: parameter.text for parameter in view.parameters},
            }
            for view in self._views.values()
        ]
        return _json({"views": views, "clusters": list(self._sources), "schema": "/api/schema"})

    async def _schema(self, request: Request) -> Response:
        await self._access.visitor(request)
        return _json({name: schema_of(view.model) for name, view in self._views.items()})

    async def _asked(self, request: Request) -> tuple[Asked, View, Visitor]:
        visitor = await self._access.visitor(request)
        view = self._views.get(request.scope["path"].rpartition("/")[2])
        if view is None:
            raise Refused(404, f"there is no such page: want one of {', '.join(self._views)}")
        query = dict(request.query_params)
        query.pop("seen", None)
        name = query.pop("cluster", "") or next(iter(self._sources))
        if name not in self._sources:
            raise Refused(404, f"cluster: want one of {', '.join(self._sources)}")
        known = {parameter.name for parameter in view.parameters}
        query = {word: text for word, text in query.items() if word in known}
        return Asked(self._sources[name], visitor.rights, view.name, query, tuple(self._sources)), view, visitor

    async def _login(self, request: Request) -> Response:
        if not self._access.login:
            raise Refused(404, "there is nothing to log in to")
        if request.method == "GET":
            return _html(self._pages.login(""))
        token = (await _form(request)).get("token", "").strip()
        if len(token) > LONGEST:
            return _html(self._pages.login(f"token: want at most {LONGEST} characters"), 400)
        try:
            await self._access.visitor(_with_token(request, token))
        except Refused as refusal:
            return _html(self._pages.login(str(refusal)), refusal.status)
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, token, path="/", secure=True, httponly=True, samesite="strict")
        return response

    async def _logout(self, request: Request) -> Response:  # noqa: ARG002
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
        return response

    async def _stream(self, request: Request) -> Response:
        asked, view, visitor = await self._asked(request)
        key, seen = visitor.rights.key, request.headers.get("last-event-id") or request.query_params.get("seen", "")
        if self._access.login and self._streams.get(key, 0) >= STREAMS:
            raise Refused(429, f"want at most {STREAMS} open pages", delay=self._look)
        return StreamingResponse(
            self._events(asked, view, visitor, seen),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def _events(self, asked: Asked, view: View, visitor: Visitor, seen: str) -> AsyncIterator[bytes]:
        """What has changed, since the frame that was `seen` and from then on. It ends when the visitor's token does."""
        clock, key = asyncio.get_running_loop().time, visitor.rights.key
        self._streams[key] = self._streams.get(key, 0) + 1
        frame: Frame | None = None
        end = clock() + self._life
        try:
            yield b"retry: 1000\n\n"
            while clock() < end:
                if not (still := await visitor.still()):
                    if still is False:
                        yield _event("ended", "")
                    elif silence := asked.source.stores.silence:
                        yield _event("problem", str(silence))
                    return  # if that could not be asked, the browser asks again
                began = clock()
                former, frame = frame, await self._frames.of(asked)
                if former is None and frame.digest == seen:
                    former = frame
                for name, html in self._pages.changes(asked, view, former, frame):
                    yield _event(name, html, frame.digest)
                yield b":\n\n"  # proxies between end what is silent
                await asyncio.sleep(max(self._pace, clock() - began))
                await frame.outdated(min(self._look, frame.left(self._clock())))
        finally:
            self._streams[key] -= 1
            if not self._streams[key]:
                del self._streams[key]


def _event(name: str, text: str, digest: str = "") -> bytes:
    """A server-sent event; each line of the text is one of its data."""
    data = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{data}{f'id: {digest}' + chr(10) if digest else ''}\n".encode()


class Guarded:
    """Puts the headers on every answer, and hides what went wrong inside."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                given = {name for name, _ in message["headers"]}
                added = [(name.encode(), text.encode()) for name, text in HEADERS.items() if name.encode() not in given]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except ClientDisconnect:
            pass
        except Exception:  # the wall of a request: what it quotes of objects stays in the log
            log.exception("request failed", path=scope["path"])
            if begun:
                raise
            await Response("internal error; the log has it", 500, media_type="text/plain")(scope, receive, guarded)


def _check_length(request: Request) -> None:
    if len(request.url.query) > _QUERY:
        raise Refused(414, f"the query is longer than {_QUERY} characters")


def _wants_html(request: Request) -> bool:
    path = request.url.path
    return not path.startswith(("/api", "/events/", "/static/"))


def _html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status, headers, "text/html; charset=utf-8")


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(value), status, headers, "application/json")


async def _form(request: Request, most: int = _FORM) -> dict[str, str]:
    body = b""
    try:
        async with asyncio.timeout(FORM_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise Refused(413, f"want a form of at most {most} bytes")
    except TimeoutError:
        raise Refused(408, f"want the whole form within {FORM_SECONDS:g} seconds") from None
    try:
        return dict(parse_qsl(body.decode("ascii", "replace"), max_num_fields=_FIELDS))
    except ValueError as error:
        raise Refused(400, f"want a form of at most {_FIELDS} fields") from error


def _with_token(request: Request, token: str) -> Request:
    headers = [(name, value) for name, value in request.scope["headers"] if name not in (b"authorization", b"cookie")]
    return Request({**request.scope, "headers": [*headers, (b"authorization", f"Bearer {token}".encode())]})
