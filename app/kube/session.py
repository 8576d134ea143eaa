"""One authenticated HTTP session with an API server, on the official asyncio client.

Owns the client object, the renewal of its credentials and the deadline of each request; knows no resources.
It retries one thing: an answer 401 (or an untrusted certificate), once, after reading its credentials again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import getproxies

import aiohttp
import msgspec
import structlog
from kubernetes.aio.client import ApiClient
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException

from app.errors import ApiError, UsageError
from app.kube.answers import MESSAGE_LIMIT, error_of_answer, error_of_transport
from app.kube.credentials import Credentials
from app.kube.fencing import FencedConnector, FencedRequest
from app.kube.impersonation import Impersonation
from app.text import one_line
from app.wire import JSON, decode_json

log = structlog.get_logger(__name__)

TRANSPORT_FAULTS = (aiohttp.ClientError, OSError, TimeoutError, ValueError, ConfigException)
_ERROR_BODY_LIMIT = 64 * 1024
_RELOAD_SECONDS = 1.0
"""Between two reloads that refused credentials force, so that an exec plugin does not run for every request."""
_RETIRED_CLIENTS = 2
_PROXIED = {"http", "https"}
"""Schemes; "no" alone, which names exceptions, makes no proxy."""
_TLS_FIELDS = ("host", "ssl_ca_cert", "cert_file", "key_file", "verify_ssl", "tls_server_name", "proxy")


class Session:
    """`deadline` bounds each request in seconds, its answer's body included."""

    def __init__(self, credentials: Credentials, *, deadline: float, impersonate: Impersonation | None = None) -> None:
        self._credentials = credentials
        self._impersonate = impersonate
        self.deadline = deadline
        self._refreshing: asyncio.Task[None] | None = None
        self._reloaded_at = float("-inf")
        self._generation = 0
        self._identity = self._present_identity()
        self._api = _api_client(credentials.configuration, self._acting_as)
        self._retired: deque[Any] = deque()
        self._closed = False

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
        """The API server's URL."""
        return str(self._credentials.configuration.host)

    @property
    def _acting_as(self) -> Impersonation | None:
        return self._impersonate or self._credentials.impersonation

    def _present_identity(self) -> tuple[object, ...]:
        """What a client is made from; another one needs a new client."""
        return (self._acting_as, *_tls_identity(self._credentials.configuration))

    async def open(self, method: str, path: str, *, query: dict[str, str], what: str) -> aiohttp.ClientResponse:
        """The response of a success within the deadline; its body is the caller's, who closes it."""
        try:
            async with asyncio.timeout(self.deadline):
                return await self._send(method, path, query=query, what=what)
        except TimeoutError as error:
            raise error_of_transport(what, error) from error

    async def json(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: JSON | list[JSON] | None = None,
        content_type: str = "application/json",
    ) -> JSON:
        what = f"{method} {path}"
        try:
            async with asyncio.timeout(self.deadline):
                response = await self._send(
                    method, path, query=query or {}, body=body, content_type=content_type, what=what
                )
                async with response:
                    raw = await response.read()
            decoded = decode_json(raw)
        except msgspec.DecodeError as error:
            raise ApiError(f"{what}: the answer is not JSON", status=0) from error
        except TRANSPORT_FAULTS as error:
            raise error_of_transport(what, error) from error
        if not isinstance(decoded, dict):
            raise ApiError(f"{what}: the answer is not a JSON object", status=0)
        return decoded

    async def lines(self, path: str, query: dict[str, str]) -> AsyncGenerator[bytes]:
        """The lines of a stream; an empty one when it is open."""
        what = f"WATCH {path}"
        response = await self.open("GET", path, query=query, what=what)
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

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str],
        what: str,
        body: JSON | list[JSON] | None = None,
        content_type: str = "application/json",
    ) -> aiohttp.ClientResponse:
        """The response of a success, its body unread; a 401 or an untrusted certificate is tried twice."""
        for last_try in (False, True):
            if self._closed:
                raise ApiError(f"{what}: the client is closed", status=0, reason="Closed")
            generation = self._generation
            try:
                if self._credentials.due:
                    await self._refresh(self._credentials.renew)
                response = await self._once(method, path, query=query, body=body, content_type=content_type)
            except aiohttp.ClientSSLError as error:
                # The authority or our certificate may have been rotated on disk since the context was made.
                if last_try or not await self._reload(generation, new_tls=True):
                    raise error_of_transport(what, error) from error
                continue
            except TRANSPORT_FAULTS as error:
                raise error_of_transport(what, error) from error
            if 200 <= response.status < 300:
                return response
            async with response:
                if response.status == 401 and not last_try and await self._reload(generation):
                    continue
                text = await _error_body(response)
                raise error_of_answer(what, response.status, text, retry_after=response.headers.get("Retry-After"))
        raise AssertionError("unreachable")  # pragma: no cover

    async def _once(
        self, method: str, path: str, *, query: dict[str, str], body: JSON | list[JSON] | None, content_type: str
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json", "User-Agent": "berth", "Content-Type": content_type}
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        if token := headers.get("authorization"):
            headers["authorization"] = token.strip()
        given = {name: value for name, value in query.items() if value}
        url = str(self._api.configuration.host) + path + ("?" + urlencode(given) if given else "")
        # The client reads a falsy timeout as five minutes in total; ours is set around each call instead.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.deadline)
        answer: Any = await self._api.call_api(method, url, header_params=headers, body=body, _request_timeout=timeout)
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
        """Run `work` once for all who ask meanwhile.

        It outlives the request that started it: a plugin slower than a request's deadline must not be started
        again by every request.
        """
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refreshed(work, new_tls=new_tls))
        await asyncio.shield(self._refreshing)

    async def _refreshed(self, work: Callable[[], Awaitable[None]], *, new_tls: bool) -> None:
        try:
            await work()
            await self._adopt(new_tls=new_tls)
            self._generation += 1
        except UsageError as error:
            # What we have may still do; if not, the server's refusal says it better than this.
            log.warning("credentials not renewed", server=self.server, error=str(error))
        finally:
            self._refreshing = None

    async def _adopt(self, *, new_tls: bool) -> None:
        """Use the current configuration; a new TLS identity needs a new client, since the old holds its context."""
        configuration, identity = self._credentials.configuration, self._present_identity()
        if identity == self._identity and not new_tls:
            self._api.configuration = configuration
            return
        self._retired.append(self._api)
        self._api, self._identity = _api_client(configuration, self._acting_as), identity
        # Requests under way finish on the client that they began with, within reason.
        while len(self._retired) > _RETIRED_CLIENTS:
            await self._retired.popleft().close()


class LineSplitter:
    """Feed chunks, get the lines that they complete, of any length (without the newline, empty lines left out)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        # Parts of an unfinished line are joined once, when it ends: a long line costs linear time.
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line = b"".join((*self._parts, chunk[start:end])) if self._parts else chunk[start:end]
            self._parts.clear()
            start = end + 1
            if line.strip():
                yield line
        if start < len(chunk):
            self._parts.append(chunk[start:])

    def rest(self) -> bytes:
        """What came after the last newline, "" at a clean end; the splitter is empty afterwards."""
        rest = b"".join(self._parts)
        self._parts.clear()
        return rest


async def _error_body(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of the body, as far as it comes."""
    body = b""
    with contextlib.suppress(aiohttp.ClientError, OSError):
        # One read gives what has come in so far, which may be half of a Status.
        while len(body) < _ERROR_BODY_LIMIT and (chunk := await response.content.read(_ERROR_BODY_LIMIT)):
            body += chunk
    return body


def _tls_identity(configuration: Any) -> tuple[object, ...]:
    """What a TLS context is made from: the settings, and the state of the files that they name."""
    values = [getattr(configuration, name, None) for name in _TLS_FIELDS]
    stamps = []
    for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        with contextlib.suppress(OSError):
            stat = Path(path).stat() if path else None
            stamps.append((stat.st_mtime_ns, stat.st_size) if stat else None)
    return (*values, *stamps)


class _Rest(RESTClientObject):
    """The library's way of sending, over connections that a fence can refuse."""

    def _create_connector(self) -> aiohttp.TCPConnector:
        return FencedConnector(limit=self.maxsize, ssl=self.ssl_context)


def _api_client(configuration: Any, acting_as: Impersonation | None) -> Any:
    # By default the library reads ~/.netrc (in a thread) and the environment's proxies anew for every request, which
    # is a fifth of its cost; where the environment names no proxy there is nothing that we want of it.
    configuration.client_session_kwargs = {
        "trust_env": bool(getproxies().keys() & _PROXIED),
        "headers": acting_as.headers if acting_as is not None else (),
        "request_class": FencedRequest,
    }
    try:
        api = ApiClient(configuration=configuration)
        api.rest_client = _Rest(configuration)
    except (OSError, ValueError) as error:  # unreadable or malformed certificates
        raise UsageError(one_line(f"TLS files of {configuration.host}: {error}", MESSAGE_LIMIT)) from error
    return api
