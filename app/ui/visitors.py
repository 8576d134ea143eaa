"""Who looks: on a laptop the owner of the kubeconfig; in a cluster callers with a token, or those of a front proxy.

A token is never kept: what is known of one is found by a hash of it with a secret of this process.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from starlette.requests import Request

from app.errors import ApiError
from app.kube.asking import Requests
from app.kube.client import KubeClient
from app.kube.rate import Rate
from app.ui.rights import KEPT, Caller, OfCaller, Own, Reviews, Rights
from app.wire import JSON

COOKIE = "__Host-berth-token"
LONGEST = 3800
"""Characters of a token: a browser keeps no cookie of more than 4,096 bytes."""
_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_TOKENS = 10_000
_REMEMBERED = 300.0
"""Seconds for which a token that was good may be asked about, however many wrong ones come."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_PROXIED = "x-remote-"


class Refused(Exception):
    """The request is not answered: HTTP `status`, with why. It may be sent again after `delay` seconds."""

    def __init__(self, status: int, text: str, *, delay: float = 0.0) -> None:
        super().__init__(text)
        self.status, self.delay = status, delay


@dataclass(frozen=True, slots=True)
class Visitor:
    """One who looks. `name` is shown where there is something to log out of.

    `still` says whether that holds yet; None where it cannot be asked.
    """

    rights: Rights
    name: str
    still: Callable[[], Awaitable[bool | None]]


class Access(Protocol):
    """Decides about each request. `login` is whether there is something to log in to."""

    login: bool

    def check(self, request: Request) -> None:
        """Raises Refused for one that no page of ours, and no typed address, can have led to."""

    async def visitor(self, request: Request) -> Visitor:
        """Raises Refused: 401 without an identity, 429 where too much was asked."""


def check_origin(request: Request, scheme: str) -> None:
    """Raises Refused for a request that a page of another site sends."""
    headers = request.headers
    origin, here = headers.get("origin"), f"{scheme}://{headers.get('host', '')}"
    if origin is not None and origin.lower() != here.lower():
        raise Refused(403, f"Origin: want {here}")
    if origin is None and request.method != "GET":
        raise Refused(403, "Origin: want it with every request that is no GET")
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    if site in ("cross-site", "same-site") and mode != "navigate":
        raise Refused(403, "a page of another site asks")


class OnLaptop:
    """The page has the rights of the kubeconfig, and answers this machine alone."""

    login = False

    def check(self, request: Request) -> None:
        """The name in Host is that of this machine: a name of another site that leads here is not (DNS rebinding)."""
        host = request.headers.get("host", "")
        name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        if name.lower() not in _LOOPBACK:
            raise Refused(421, f"Host: want one of {', '.join(sorted(_LOOPBACK))}")
        check_origin(request, "http")

    async def visitor(self, request: Request) -> Visitor:  # noqa: ARG002  all are the same
        return Visitor(Own(), "", _always)


async def _always() -> bool:
    return True


class InCluster:
    """Each caller sees what it may get. `proxies` are the common names that a front proxy's certificate may have.

    A certificate counts where TLS has verified it with the CA of front proxies; without one the headers mean nothing.
    """

    login = True

    def __init__(
        self,
        client: KubeClient,
        *,
        proxies: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._clock = client, clock
        self._proxies = frozenset(proxies)
        self._reviews = Reviews(client, clock=clock)
        self._secret = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, tuple[float, Caller | None]] = OrderedDict()
        self._good: OrderedDict[bytes, float] = OrderedDict()
        self._requests = Requests[Caller | ApiError | None]()
        self._unknown = Rate[str](per_second=2, burst=10, names=10_000, clock=clock)
        self._all_unknown = Rate[str](per_second=20, burst=100, clock=clock)
        self._asked = Rate[str](per_second=20, burst=200, names=10_000, clock=clock)

    def check(self, request: Request) -> None:
        check_origin(request, "https")

    async def visitor(self, request: Request) -> Visitor:
        """By the front proxy's headers, the header Authorization, or the cookie, in this order."""
        proxied = self._proxied(request)
        if proxied is not None:
            self._bound(proxied.key)
            return Visitor(OfCaller(self._reviews, proxied), proxied.name, _always)
        token = token_of(request)
        address = request.client.host if request.client else ""
        caller = await self.caller(token, address)
        self._bound(caller.key)

        async def still() -> bool | None:
            try:
                return (await self.caller(token, address)).key == caller.key
            except Refused as refusal:
                return False if refusal.status == 401 else None

        return Visitor(OfCaller(self._reviews, caller), caller.name, still)

    async def caller(self, token: str, address: str) -> Caller:
        """Whose token it is, as the API server says it. Raises Refused."""
        if not token or len(token) > LONGEST or not token.isascii() or not token.isprintable():
            raise Refused(401, "want a token of the API server")
        mark = hashlib.blake2b(token.encode(), key=self._secret).digest()
        now = self._clock()
        known = self._known.get(mark)
        if known is None or now - known[0] >= KEPT:
            if now - self._good.get(mark, float("-inf")) > _REMEMBERED:
                delay = self._unknown.take(address) or self._all_unknown.take("")
                if delay:
                    raise Refused(429, "too many tokens that are not known", delay=delay)
            answer = await self._requests.answer(mark, lambda: self._review(token))
            if isinstance(answer, ApiError):
                raise Refused(503, f"the token could not be checked: {answer}", delay=1.0)
            known = self._known[mark] = now, answer
            self._remember(mark, good=answer is not None)
        if known[1] is None:
            raise Refused(401, "the API server does not know the token")
        return known[1]

    def _remember(self, mark: bytes, *, good: bool) -> None:
        self._known.move_to_end(mark)
        if good:
            self._good[mark] = self._clock()
            self._good.move_to_end(mark)
        else:
            self._good.pop(mark, None)
        for kept in (self._known, self._good):
            if len(kept) > _TOKENS:
                kept.popitem(last=False)

    async def _review(self, token: str) -> Caller | ApiError | None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        try:
            status = (await self._client.post(_REVIEWS, body)).get("status") or {}
        except ApiError as error:
            return error
        user = status.get("user") or {}
        if status.get("authenticated") is not True or not user.get("username"):
            return None
        return caller_of(user)

    def _proxied(self, request: Request) -> Caller | None:
        """Who the front proxy says it is; None where none speaks. Raises Refused where one gives no name."""
        tls = request.scope.get("tls")
        certificate: Any = tls.getpeercert() if tls is not None else None
        if not certificate:
            return None
        # As kube-apiserver compares them (`--requestheader-allowed-names`): of several the last.
        names = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
        if self._proxies and (not names or names[-1] not in self._proxies):
            raise Refused(401, "the certificate is not that of a front proxy")
        headers = request.headers
        user = headers.get(f"{_PROXIED}user", "")
        if not user:
            raise Refused(401, "X-Remote-User: want the name of the caller")
        extra: dict[str, tuple[str, ...]] = {}
        for name, value in headers.items():
            if name.startswith(f"{_PROXIED}extra-"):
                key = unquote(name.removeprefix(f"{_PROXIED}extra-"))
                extra[key] = (*extra.get(key, ()), value)
        # As an API server adds it to those that a front proxy names.
        groups = tuple(dict.fromkeys((*headers.getlist(f"{_PROXIED}group"), "system:authenticated")))
        return Caller(user, headers.get(f"{_PROXIED}uid", ""), groups, extra)

    def _bound(self, key: str) -> None:
        if delay := self._asked.take(key):
            raise Refused(429, "too many requests", delay=delay)


def caller_of(user: JSON) -> Caller:
    """The user of a TokenReview."""
    extra = {str(name): tuple(map(str, texts or ())) for name, texts in (user.get("extra") or {}).items()}
    return Caller(str(user["username"]), str(user.get("uid") or ""), tuple(map(str, user.get("groups") or ())), extra)


def token_of(request: Request) -> str:
    """The bearer token of a request, else that of its cookie; "" where it has none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return request.cookies.get(COOKIE, "")
