"""Requests to the daemon of a node: three verbs on its workloads, and its caches; bounded in size and time.

A daemon says as text what is wrong. `Unanswered` says that nothing is known of what became of a request, `Refused`
that the daemon has not done it.

The client certificate for daemons that speak TLS comes out of a Secret, and is followed while the process runs.
Without a certificate that can be used no daemon with TLS is asked: nothing falls back to plain HTTP.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, Self, TypeVar

from app.errors import Transient
from app.kube.fencing import FencedRequest
from app.kube.official import aiohttp
from app.kube.secrets import FILES
from app.rmd.daemon.wire import Cache, Malformed, Reservation, read_caches, read_reservation, read_reservations
from app.text import fault, one_line
from app.wire import JSON, decode_json, encode_json

MOST_BYTES = 8 * 2**20
"""Of an answer: some thousand reservations."""
_SHOWN = 512
"""Characters of a daemon's text that are kept."""
T = TypeVar("T")
Passing = Callable[[], AbstractAsyncContextManager[object]]


class Unanswered(Transient):
    """No answer, or one that is none of a daemon."""


class Refused(Transient):
    """The daemon answers with an error; `text` is what it says, on one line."""

    def __init__(self, message: str, *, status: int, text: str) -> None:
        super().__init__(message)
        self.status, self.text = status, text


class DaemonClient:
    """For all daemons of a cluster. `passing` is entered around each request that changes something.

    `timeout` are the seconds for a whole request. Redirects and proxies are not followed.
    """

    def __init__(self, *, timeout: float = 10.0, passing: Passing = nullcontext) -> None:
        self._timeout, self._passing = timeout, passing
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # A connection each: on one that is kept aiohttp may send a DELETE again, to a daemon that has restarted.
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            request_class=FencedRequest,
            timeout=aiohttp.ClientTimeout(total=self._timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, *_exc_info: object) -> None:
        if self._session is not None:
            await self._session.close()

    def at(self, url: str, tls: ssl.SSLContext | None = None, *, server_name: str = "") -> Daemon:
        """The daemon at `http://HOST:PORT` or `https://HOST:PORT`; the latter wants `tls`, and never goes without."""
        if url.startswith("https://") and tls is None:
            raise ValueError("https wants certificates")
        return Daemon(self, url, tls, server_name)

    async def request(self, daemon: Daemon, method: str, path: str, body: JSON | None = None) -> tuple[int, bytes]:
        if self._session is None:
            raise RuntimeError("enter the client first")
        what = f"{method} {daemon.url}{path}"
        try:
            async with self._session.request(
                method,
                daemon.url + path,
                data=None if body is None else encode_json(body),
                headers={"Content-Type": "application/json", "Accept": "application/json, text/plain"},
                ssl=daemon.tls if daemon.tls is not None else True,
                server_hostname=daemon.server_name or None,
                allow_redirects=False,
            ) as response:
                return response.status, await _bounded(response, what)
        except (aiohttp.ClientError, OSError) as error:
            raise Unanswered(f"{what}: {one_line(fault(error), _SHOWN)}") from error

    def changing(self) -> AbstractAsyncContextManager[object]:
        return self._passing()


class Daemon:
    """One daemon. Methods raise Unanswered and Refused."""

    def __init__(self, client: DaemonClient, url: str, tls: ssl.SSLContext | None, server_name: str) -> None:
        self._client, self.url, self.tls, self.server_name = client, url, tls, server_name

    async def reservations(self) -> tuple[Reservation, ...]:
        """All that the daemon holds, also those of others."""
        return await self._read("/v1/workloads", read_reservations)

    async def caches(self) -> tuple[Cache, ...]:
        """The level 3 caches of the machine. A daemon refuses where no class of service is left."""
        return await self._read("/v1/cache/l3", read_caches)

    async def reserve(self, body: JSON) -> Reservation:
        async with self._client.changing():
            status, answer = await self._client.request(self, "POST", "/v1/workloads", body)
        if status not in (200, 201):
            raise self._refused("POST", "/v1/workloads", status, answer)
        return self._understood("/v1/workloads", read_reservation, answer)

    async def release(self, reservation: Reservation) -> None:
        """Delete a reservation; one that is gone already is no error."""
        path = f"/v1/workloads/{reservation.id}"
        if not reservation.addressable:
            raise Refused(f"{path}: a daemon takes numbers alone", status=0, text=f"its id is no number: {path}")
        async with self._client.changing():
            # With a body, which waits for the fence as that of every write.
            status, answer = await self._client.request(self, "DELETE", path, {})
        if status == 404:
            return
        # A DELETE that is done has an empty answer; one for a reservation of another origin says so with status 200.
        if status != 200 or answer.strip():
            raise self._refused("DELETE", path, status, answer)

    async def _read(self, path: str, read: Callable[[Any], T]) -> T:
        status, answer = await self._client.request(self, "GET", path)
        if status != 200:
            raise self._refused("GET", path, status, answer)
        return self._understood(path, read, answer)

    def _understood(self, path: str, read: Callable[[Any], T], answer: bytes) -> T:
        try:
            return read(decode_json(answer))
        except (Malformed, ValueError, TypeError, AttributeError, RecursionError) as error:
            text = one_line(answer[:_SHOWN].decode(errors="replace"), 80)
            raise Unanswered(f"{self.url}{path}: no answer of a daemon ({error}): {text!r}") from error

    def _refused(self, method: str, path: str, status: int, answer: bytes) -> Refused:
        text = one_line(answer.decode(errors="replace"), _SHOWN) or f"HTTP {status}"
        return Refused(f"{method} {self.url}{path}: HTTP {status}: {text}", status=status, text=text)


class NoCertificate(Exception):
    """The Secret is not there, or cannot be used; the text says why."""


class Certificates:
    """`files` are those of the Secret now, None where it is missing; it may raise OSError."""

    def __init__(self, files: Callable[[], Mapping[str, bytes] | None], *, place: str) -> None:
        self._files, self._place = files, place
        self._made_of: Mapping[str, bytes] | None = None
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """For a connection that begins now. Raises NoCertificate."""
        try:
            files = self._files()
        except OSError as error:
            raise NoCertificate(f"{self._place}: cannot be read: {error}") from error
        if files is None:
            raise NoCertificate(f"TLS to the daemon wants {self._place} with {', '.join(FILES)}: there is none")
        if self._context is None or files != self._made_of:
            self._context, self._made_of = self._new(files), files
        return self._context

    def _new(self, files: Mapping[str, bytes]) -> ssl.SSLContext:
        missing = [name for name in FILES if not files.get(name)]
        if missing:
            raise NoCertificate(f"{self._place}: {', '.join(missing)} missing: want {', '.join(FILES)}")
        # RMD v0.3 speaks TLS 1.2 at most.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_verify_locations(cadata=files["ca.crt"].decode("ascii"))
            with tempfile.TemporaryDirectory(prefix="berth-rmd-") as folder:
                # OpenSSL reads a key from files alone; the folder is for this user alone.
                for name in FILES[:2]:
                    Path(folder, name).write_bytes(files[name])
                context.load_cert_chain(Path(folder, "tls.crt"), Path(folder, "tls.key"), password="")
        except (ssl.SSLError, ValueError, OSError) as error:
            raise NoCertificate(f"{self._place}: cannot be used for TLS: {error}") from error
        return context


async def _bounded(response: aiohttp.ClientResponse, what: str) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MOST_BYTES:
            raise Unanswered(f"{what}: the answer has more than {MOST_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
