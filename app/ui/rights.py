"""What a caller may read: asked of the API server for each caller, and kept for some seconds.

On a laptop the page reads with the kubeconfig of the one who looks, and the API server itself refuses what that may
not read. In a cluster the page reads with rights of its own, and shows an object to those who may get it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from app.errors import ApiError
from app.kube.asking import Requests
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.wire import JSON, encode_sorted

KEPT = 10.0
"""Seconds for which an answer about a caller is used again."""
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ANSWERS = 50_000
_AT_ONCE = 4
"""Questions about one caller that are under way at a time."""
_SECRET = "Secret"  # noqa: S105 - the name of a kind
"""Ends the kinds that no caller sees here: Secrets, and what becomes one."""
_METHODS = {"get": "GET", "list": "GET", "create": "POST"}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who looks, as the API server knows it. `key` is the same for the same identity, and tells nothing of a token."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def key(self) -> str:
        identity = [self.name, self.uid, sorted(self.groups), {name: list(texts) for name, texts in self.extra.items()}]
        return hashlib.sha256(encode_sorted(identity)).hexdigest()


class Right(NamedTuple):
    """A verb on objects; `namespace` "" is all of them, `name` "" any. `path` is for what is no object."""

    verb: str
    resource: Resource | None
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    path: str = ""

    @property
    def attributes(self) -> JSON:
        """The part of an access review."""
        if self.resource is None:
            return {"nonResourceAttributes": {"verb": self.verb, "path": self.path}}
        named = {
            "verb": self.verb,
            "group": self.resource.group,
            "version": self.resource.version,
            "resource": self.resource.plural,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {"resourceAttributes": {field: value for field, value in named.items() if value}}

    @property
    def refusal(self) -> ApiError:
        """What the API server would answer to the caller."""
        path = self.path
        if self.resource is not None:
            namespace = self.namespace if self.resource.namespaced and self.namespace else None
            subresource = self.subresource or None
            path = self.resource.path(namespace=namespace, name=self.name or None, subresource=subresource)
        text = f"{_METHODS[self.verb]} {path}: HTTP 403: you have no right to {self.verb} this"
        return ApiError(text, status=403, reason="Forbidden")


class Rights(Protocol):
    """What one caller may do. `key` distinguishes what is computed for this caller."""

    @property
    def key(self) -> str: ...

    @property
    def tries(self) -> bool:
        """Whether requests that change nothing are sent as they are, such as dry runs, and addresses are called."""

    async def allowed(self, right: Right) -> bool:
        """Raises ApiError where that cannot be asked."""


class Own:
    """Those of the kubeconfig, which the API server checks at each request."""

    key, tries = "own", True

    async def allowed(self, right: Right) -> bool:  # noqa: ARG002  as of all rights
        return True


class Reviews:
    """Asks the API server about callers. The answers are kept for some seconds."""

    def __init__(self, client: KubeClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._answers: OrderedDict[tuple[str, Right], tuple[float, bool]] = OrderedDict()
        self._requests = Requests[bool | ApiError]()
        self._gates: OrderedDict[str, asyncio.Semaphore] = OrderedDict()

    async def allowed(self, caller: Caller, key: str, right: Right) -> bool:
        now = self._clock()
        known = self._answers.get((key, right))
        if known is not None and now - known[0] < KEPT:
            return known[1]
        answer = await self._requests.answer((key, right), lambda: self._ask(caller, key, right))
        if isinstance(answer, ApiError):
            raise answer
        self._answers[key, right] = now, answer
        self._answers.move_to_end((key, right))
        if len(self._answers) > _ANSWERS:
            self._answers.popitem(last=False)
        return answer

    async def _ask(self, caller: Caller, key: str, right: Right) -> bool | ApiError:
        gate = self._gates.setdefault(key, asyncio.Semaphore(_AT_ONCE))
        self._gates.move_to_end(key)
        if len(self._gates) > 1000:
            self._gates.popitem(last=False)
        spec: JSON = {"user": caller.name, "groups": list(caller.groups), **right.attributes}
        spec |= {"uid": caller.uid} if caller.uid else {}
        spec |= {"extra": {name: list(texts) for name, texts in caller.extra.items()}} if caller.extra else {}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        try:
            async with gate:
                status = (await self._client.post(_REVIEWS, review)).get("status") or {}
        except ApiError as error:
            return error
        return status.get("allowed") is True and status.get("denied") is not True


class OfCaller:
    """Those of a caller of a page that runs in a cluster. Secrets are not shown."""

    tries = False

    def __init__(self, reviews: Reviews, caller: Caller) -> None:
        self._reviews, self._caller, self.key = reviews, caller, caller.key

    async def allowed(self, right: Right) -> bool:
        """Whether it is granted: for all objects, for all of the namespace, or for this one."""
        if right.resource is not None and right.resource.kind.endswith(_SECRET):
            return False
        for wider in _from_widest(right):
            if await self._reviews.allowed(self._caller, self.key, wider):
                return True
        return False


def _from_widest(right: Right) -> Iterable[Right]:
    yield from dict.fromkeys((right._replace(namespace="", name=""), right._replace(name=""), right))
