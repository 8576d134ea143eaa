"""Connects to an API server: authenticated requests over the official asyncio client, which know no resources.

It retries one thing: an answer 401 (or an untrusted certificate), once, after reading its credentials again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from urllib.request import getproxies

import msgspec
import structlog

from app.errors import ANSWER_TOO_LARGE, ApiError, UsageError
from app.kube.answers import (
    MESSAGE_LIMIT,
    delay_of,
    error_of_status,
    error_of_transport,
    status_in,
    warnings_in,
)
from app.kube.client import KubeClient, Request
from app.kube.credentials import Credentials, Impersonation, UnredirectedResponse, load_credentials, stamps
from app.kube.fencing import FencedRequest
from app.kube.official import ApiClient, ConfigException, aiohttp
from app.text import one_line
from app.wire import JSON, decode_json, encode_as_go

log = structlog.get_logger(__name__)

DEADLINE = 10.0
_FAULTS = (aiohttp.ClientError, OSError, TimeoutError, ValueError, ConfigException)
_BEGINNING = 64 * 1024
"""Bytes that are read of a body that is not known to be an object of the API."""
_SUCCESSES = range(200, 300)
_RELAYED = frozenset(range(200, 600)) - {401, 403}
"""The HTTP statuses that a server behind a proxy of the API server may have meant."""
_RELOAD_SECONDS = 1.0
"""Between two reloads that refused credentials force, so that an exec plugin does not run for every request."""
_RETIRED_CLIENTS = 2
_REQUESTS = 100
"""At a time. Streams are not among them: each has a connection for as long as it is watched, and there may be more than
that, one for each kind and namespace."""
_PROXIED = {"http", "https"}
"""Schemes; "no" alone, which names exceptions, makes no proxy."""
_TLS_FIELDS = ("host", "ssl_ca_cert", "cert_file", "key_file", "verify_ssl", "tls_server_name", "proxy")


async def connect(*, kubeconfig: str | None, context: str | None = None, deadline: float = DEADLINE) -> KubeClient:
    """A client for `kubeconfig`; None means the mounted service account, else the default kubeconfig.

    Raises `UsageError` where there is no usable configuration. Nothing is sent yet.
    """
    credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    return KubeClient(Session(credentials, deadline=deadline))


@dataclass(slots=True)
class _Sending:
    """What the request of the current task sends, for whom, and the connection that it has got."""

    body: bytes | None
    acting_as: Impersonation | None = None
    transport: asyncio.Transport | None = None


_SENDING: ContextVar[_Sending] = ContextVar("sending")


class _Request(FencedRequest):
    def __init__(self, *args: Any, data: Any = None, **options: Any) -> None:
        sending = _SENDING.get()
        super().__init__(*args, data=data and sending.body, **options)
        if sending.acting_as is not None:
            for name in [name for name in self.headers if name.lower().startswith("impersonate-")]:
                self.headers.popall(name, None)
            self.headers.extend(sending.acting_as.headers)

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        _SENDING.get().transport = conn.transport
        return await super().send(conn)


class Session:
    """`deadline` bounds each request in seconds, its answer's body included; of a stream, its beginning alone."""

    def __init__(self, credentials: Credentials, *, deadline: float = DEADLINE) -> None:
        self._credentials, self.deadline = credentials, deadline
        self._refreshing: asyncio.Task[None] | None = None
        self._reloaded_at = float("-inf")
        self._generation = 0
        self._identity = self._present_identity()
        self._api = _api_client(credentials.configuration, self._credentials.impersonation)
        self._retired: deque[Any] = deque()
        self._closed = False
        self.heard = False
        """Whether the API server has answered anything yet."""
        self._slots = asyncio.Semaphore(_REQUESTS)

    async def close(self) -> None:
        """Close every connection; watches under way end with an `ApiError`."""
        self._closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        for api in (self._api, *self._retired):
            await api.close()

    @property
    def server(self) -> str:
        return str(self._credentials.configuration.host)

    @property
    def source(self) -> str:
        """What named the API server: the kubeconfig and its context, or the service account."""
        return self._credentials.source

    @property
    def namespace(self) -> str:
        """That of objects whose namespace is not given."""
        return self._credentials.namespace

    def _present_identity(self) -> tuple[object, ...]:
        """What a client is made from, the state of TLS files included: when it changes, a new client is needed."""
        configuration = self._credentials.configuration
        files = configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file
        return (
            self._credentials.impersonation,
            *(getattr(configuration, name, None) for name in _TLS_FIELDS),
            stamps(files),
        )

    async def open(self, request: Request) -> aiohttp.ClientResponse:
        """The response of a success within the deadline; the caller reads its body and closes it."""
        try:
            async with asyncio.timeout(self.deadline):
                return await self._send(request)
        except _FAULTS as error:
            raise error_of_transport(request.what, error) from error

    async def json(
        self,
        request: Request,
        *,
        decode: Callable[[bytes], Any] = decode_json,
        most: int | None = None,
        warnings: list[str] | None = None,
    ) -> JSON:
        """The object in the answer, as `decode` reads it. Raises ApiError where there is none.

        One of more than `most` bytes is not read to its end: that is an ApiError with `answer_too_large`. The warnings
        of a success are added to `warnings`.
        """
        try:
            async with asyncio.timeout(self.deadline), self._slots:
                with _closing(await self._send(request)) as answer:
                    if warnings is not None:
                        warnings += warnings_in(answer.headers.getall("Warning", ()))
                    decoded = decode(
                        await answer.read() if most is None else await _bounded(answer, request.what, most)
                    )
        except msgspec.DecodeError as error:
            raise ApiError(f"{request.what}: the answer is not JSON", status=0) from error
        except RecursionError as error:
            raise ApiError(f"{request.what}: the answer is nested too deeply", status=0) from error
        except _FAULTS as error:
            raise error_of_transport(request.what, error) from error
        if not isinstance(decoded, dict):
            raise ApiError(f"{request.what}: the answer is not a JSON object", status=0)
        return decoded

    async def relayed(self, request: Request) -> bytes:
        """The beginning of what another server answers, whatever its HTTP status.

        Raises ApiError where the API server itself answers: with 401 or 403, or a Status.
        """
        try:
            async with asyncio.timeout(self.deadline), self._slots:
                with _closing(await self._send(request, accepted=_RELAYED)) as answer:
                    body = await _beginning(answer)
        except _FAULTS as error:
            raise error_of_transport(request.what, error) from error
        if found := status_in(body):
            raise error_of_status(request.what, found, status=answer.status)
        return body

    async def lines(self, request: Request) -> AsyncGenerator[bytes]:
        """The lines of a stream; an empty one when it is open."""
        with _closing(await self.open(request)) as response:
            try:
                yield b""
                unfinished: list[bytes] = []
                async for chunk in response.content.iter_any():
                    for line in completed_lines(unfinished, chunk):
                        yield line
                if rest := b"".join(unfinished).strip():
                    yield rest
            except (*_FAULTS, RuntimeError) as error:
                # aiohttp raises a bare RuntimeError for a stream whose connection was lost before it was read on.
                raise error_of_transport(request.what, error) from error

    async def _send(self, request: Request, *, accepted: Container[int] = _SUCCESSES) -> aiohttp.ClientResponse:
        """The response, its body unread, with an accepted status; a 401 or an untrusted certificate is tried twice."""
        for last_try in (False, True):
            if self._closed:
                raise ApiError(f"{request.what}: the client is closed", status=0, reason="Closed")
            generation = self._generation
            try:
                if self._credentials.due:
                    await self._refresh(self._credentials.renew)
                response = await self._once(request)
                self.heard = True
            except aiohttp.ClientSSLError:
                # The authority or our certificate may have been rotated on disk since the context was made.
                if last_try or not await self._reload(generation, new_tls=True):
                    raise
                continue
            if response.status in accepted:
                return response
            with _closing(response):
                if response.status == 401 and not last_try and await self._reload(generation):
                    continue
                found, delay = status_in(await _beginning(response)), delay_of(response.headers.get("Retry-After"))
                warnings = warnings_in(response.headers.getall("Warning", ()))
                raise error_of_status(request.what, found, status=response.status, delay=delay, warnings=warnings)
        raise AssertionError("unreachable")  # pragma: no cover

    async def _once(self, request: Request) -> aiohttp.ClientResponse:
        verb, path, query, body, content_type, acting_as, accept = request
        method = "GET" if verb == "WATCH" else verb
        headers = {"Accept": accept, "User-Agent": "berth", "Content-Type": content_type}
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        if token := headers.get("authorization"):
            headers["authorization"] = token.strip()
        given = {name: value for name, value in query.items() if value}
        # The server and the token come from one configuration: no token goes to the server of another one.
        url = str(self._api.configuration.host) + path + ("?" + urlencode(given) if given else "")
        # The client reads a falsy timeout as five minutes in total; ours is set around each call instead.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.deadline)
        sending = _Sending(None if body is None else encode_as_go(body), acting_as)
        _SENDING.set(sending)
        # The library writes JSON in another form. An empty body of the same type stands for ours until it is sent.
        empty = None if body is None else type(body)()
        api: Any = self._api
        try:
            answer = await api.call_api(method, url, header_params=headers, body=empty, _request_timeout=timeout)
        except BaseException:
            _cut(sending.transport)
            raise
        response: aiohttp.ClientResponse = answer.response
        return response

    async def _reload(self, generation: int, *, new_tls: bool = False) -> bool:
        """Read the credentials again after a refusal; False if that was done just now, or failed."""
        if generation == self._generation:
            if self._refreshing is None:
                if time.monotonic() - self._reloaded_at < _RELOAD_SECONDS:
                    return False
                self._reloaded_at = time.monotonic()
            await self._refresh(self._credentials.reload, new_tls=new_tls)
        return generation != self._generation

    async def _refresh(self, work: Callable[[], Awaitable[None]], *, new_tls: bool = False) -> None:
        """Run `work` once for all requests that wait for it.

        It outlives the request that started it: a plugin slower than a request's deadline must not be started
        again by every request.
        """
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refreshed(work, new_tls=new_tls))
        await asyncio.shield(self._refreshing)

    async def _refreshed(self, work: Callable[[], Awaitable[None]], *, new_tls: bool) -> None:
        try:
            await work()
            configuration, identity = self._credentials.configuration, self._present_identity()
            if identity == self._identity and not new_tls:
                self._api.configuration = configuration
            else:
                # A new TLS identity needs a new client, since the old holds its context. Requests under way finish on
                # the client that they began with, within reason.
                self._retired.append(self._api)
                self._api, self._identity = _api_client(configuration, self._credentials.impersonation), identity
                while len(self._retired) > _RETIRED_CLIENTS:
                    await self._retired.popleft().close()
            self._generation += 1
        except UsageError as error:
            # The present credentials may still be valid; if not, the server's refusal says it better than this.
            log.warning("credentials not renewed", server=self.server, error=str(error))
        finally:
            self._refreshing = None


def _cut(transport: asyncio.Transport | None) -> None:
    """End a connection whose answer is not read to its end.

    After a plain close, TLS waits up to half a minute for the server to close it as well. The library does not know
    such a connection any more, so that it would outlast the closed client.
    """
    if transport is not None:
        transport.abort()


@contextlib.contextmanager
def _closing(response: aiohttp.ClientResponse) -> Iterator[aiohttp.ClientResponse]:
    """Around the reading of a body: cuts the connection where the body did not come to its end."""
    connection = response.connection
    transport = None if connection is None else connection.transport
    try:
        yield response
    finally:
        # At the end of the body the library has given the connection back, and another request may have it by now.
        if not response.content.is_eof():
            _cut(transport)
        response.close()


def completed_lines(unfinished: list[bytes], chunk: bytes) -> list[bytes]:
    """The lines that a chunk completes, of any length, without newlines; the rest goes into `unfinished`.

    Parts of an unfinished line are joined once, when it ends: a long line costs linear time.
    """
    first, *others = chunk.split(b"\n")
    unfinished.append(first)
    if not others:
        return []
    lines = [b"".join(unfinished), *others]
    unfinished[:] = [lines.pop()]
    return [line for line in lines if line.strip()]


async def _bounded(response: aiohttp.ClientResponse, what: str, most: int) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            raise ApiError(f"{what}: the answer has more than {most} bytes", status=0, reason=ANSWER_TOO_LARGE)
    return b"".join(chunks)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of the body, as far as it comes."""
    body = b""
    with contextlib.suppress(aiohttp.ClientError, OSError):
        # One read gives what has come in so far, which may be half of a Status.
        while len(body) < _BEGINNING and (chunk := await response.content.read(_BEGINNING)):
            body += chunk
    return body


def _api_client(configuration: Any, acting_as: Impersonation | None) -> Any:
    # By default the library reads ~/.netrc (in a thread) and the environment's proxies for every request, which
    # is a fifth of its cost; where the environment names no proxy there is nothing that we want of it.
    configuration.client_session_kwargs = {
        "trust_env": bool(getproxies().keys() & _PROXIED),
        "headers": acting_as.headers if acting_as is not None else (),
        "request_class": _Request,
        "response_class": UnredirectedResponse,
    }
    # By default 100, for streams too: with as many, no other request would ever be sent.
    configuration.connection_pool_maxsize = 0
    try:
        return ApiClient(configuration=configuration)
    except (OSError, ValueError) as error:  # unreadable or malformed certificates
        raise UsageError(one_line(f"TLS files of {configuration.host}: {error}", MESSAGE_LIMIT)) from error
