"""Calls webhooks over HTTPS: one connection pool, verified TLS, deadlines, and the API server's messages for failures.

Knows clientConfig and timeoutSeconds, and nothing of what a review means.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from app.errors import BerthError
from app.text import fault
from app.wire import JSON, encode_json

_MAX_ANSWER = 16 * 1024 * 1024
_MAX_QUOTED = 1024
_STATUS_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "the server rejected our request: forbidden",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    413: "the server responded with the status code 413 but did not return more information",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class CallFailed(BerthError):
    """No usable HTTP answer came; the message starts as the API server's does (`failed to call webhook: …`)."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """Where to connect (`url`), what to verify (`server_name`), and the address as messages show it."""

    url: str
    host_header: str
    server_name: str
    shown: str


class WebhookCaller:
    """Posts reviews. One pool of connections for all webhooks; contexts are kept by CA bundle."""

    def __init__(
        self,
        resolve_service: Callable[[str, str, int], tuple[str, int] | None],
        *,
        client_certificate: tuple[str, str] | None = None,
    ) -> None:
        self._resolve_service = resolve_service
        self._client_certificate = client_certificate
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None

    async def call(self, hook: JSON, review: JSON) -> bytes:
        """The body of the webhook's 2xx answer; raises `CallFailed` for anything else, also when time is up."""
        seconds = hook.get("timeoutSeconds") or 10
        config = hook.get("clientConfig") or {}
        endpoint = self._endpoint(config, seconds)
        context = self._context(config.get("caBundle") or "")
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=0)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        try:
            async with self._session.post(
                endpoint.url,
                data=encode_json(review),
                headers={
                    "Content-Type": "application/json",
                    "Accept": "application/json, */*",
                    "Host": endpoint.host_header,
                },
                ssl=context,
                server_hostname=endpoint.server_name,
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
            ) as response:
                body = await _read(response)
        except TimeoutError as error:
            raise _post_failed(endpoint, "context deadline exceeded") from error
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            raise _post_failed(endpoint, _explain(error)) from error
        if not 200 <= response.status < 300:
            raise CallFailed(f"failed to call webhook: {_status_text(response.status, body)}")
        return body

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _endpoint(self, config: JSON, seconds: int) -> _Endpoint:
        query = f"timeout={seconds}s"
        service = config.get("service")
        if service is None:
            url = str(config.get("url", ""))
            parts = urlsplit(url)
            shown = url + ("&" if parts.query else "?") + query
            return _Endpoint(shown, parts.netloc, parts.hostname or "", shown)
        namespace, name, port = service["namespace"], service["name"], service.get("port") or 443
        path = service.get("path") or "/"
        server_name = f"{name}.{namespace}.svc"
        tail = f"{path if path.startswith('/') else '/' + path}?{query}"
        shown = f"https://{server_name}:{port}{tail}"
        address = self._resolve_service(namespace, name, port)
        if address is None:
            raise CallFailed(f'failed to call webhook: Post "{shown}": service "{name}" not found')
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        return _Endpoint(f"https://{host}:{address[1]}{tail}", f"{server_name}:{port}", server_name, shown)

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            try:
                pem = base64.b64decode(bundle, validate=True).decode() if bundle else None
                context = ssl.create_default_context(cadata=pem)
            except (ValueError, binascii.Error, ssl.SSLError) as error:
                raise CallFailed("could not get REST client: unable to load root certificates") from error
            # As Go does: any certificate in the bundle is an anchor, and CAs need not carry every extension.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if self._client_certificate is not None:
                context.load_cert_chain(*self._client_certificate)
            self._contexts[bundle] = context
        return context


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = await response.content.read(_MAX_ANSWER + 1)
    while len(body) <= _MAX_ANSWER and not response.content.at_eof():
        body += await response.content.read(_MAX_ANSWER + 1 - len(body))
    if len(body) > _MAX_ANSWER:
        raise CallFailed("failed to call webhook: the answer is longer than 16 MiB")
    return body


def _post_failed(endpoint: _Endpoint, text: str) -> CallFailed:
    return CallFailed(f'failed to call webhook: Post "{endpoint.shown}": {text}')


def _explain(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return (
            f"tls: failed to verify certificate: x509: {_certificate_fault(str(error.certificate_error), error.host)}"
        )
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return fault(error)


def _certificate_fault(text: str, host: str) -> str:
    if "expired" in text:
        return "certificate has expired or is not yet valid"
    if "mismatch" in text.lower() or "doesn't match" in text:
        return f"certificate is not valid for this name ({text.rstrip('.')}, {host})"
    return "certificate signed by unknown authority"


def _status_text(status: int, body: bytes) -> str:
    known = _STATUS_TEXTS.get(status)
    if known is not None:
        return known
    quoted = encode_json(body[:_MAX_QUOTED].decode(errors="replace").strip()).decode()
    if status >= 500:
        return f"an error on the server ({quoted}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"
