"""Keeps a store equal to what the API server holds: list, watch, resume, list again.

Owns one resource's list and watch and the patience between them. It never gives up and never ends by itself;
every exit that brought nothing new is followed by a growing, jittered pause.
"""

from __future__ import annotations

import asyncio
import random as _random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol, TypeVar, cast

import msgspec
import structlog

from app.errors import ApiError
from app.kube.answers import error_of_status
from app.kube.backoff import Backoff
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.store import PoisonError, Store, key_of
from app.wire import JSON, decode_json

log = structlog.get_logger(__name__)

T = TypeVar("T")

IDLE_TIMEOUT = 90.0
"""Seconds of silence after which a watch counts as half-open; API servers send a bookmark about once a minute."""
SETTLED = 30.0
"""A watch that lived for so many seconds was sound, whether or not there was something to say."""
FRUITLESS_LIMIT = 5
"""After so many watches in a row without progress, list again: the version may be one the server cannot serve."""
PAGE_SIZE = 500

_REASONS = {401: "unauthorized", 403: "forbidden", 404: "missing", 410: "expired", 429: "throttled"}


class WatchObserver(Protocol):
    """What a reflector reports; the metrics module implements it. `kind` is the resource's kind."""

    def began(self, kind: str, cache: Store[Any]) -> None:
        """This cache is being kept from now on; how much it holds and how old it is can be read at any time."""

    def ended(self, kind: str, cache: Store[Any]) -> None:
        """Nobody keeps this cache any more."""

    def restart(self, kind: str, reason: str) -> None:
        """A list or watch ended; `reason` is one of a dozen short words."""

    def poison(self, kind: str) -> None:
        """An object was skipped because it could not be read."""


class Reflector:
    """`healthy` is False until the first full list, and while the server refuses us (401, 403, 404).

    Other faults leave it alone, for the cache stays good through an API server's restart; `reason` names the last
    fault of any kind, "" when there is none, and the store's `age` says how long it has lasted.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        store: Store[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        observer: WatchObserver | None = None,
        backoff: Backoff | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
        page_size: int = PAGE_SIZE,
        random: Callable[[], float] = _random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._resource = resource
        self._store: Store[Any] = store
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._observer = observer
        self._backoff = backoff or Backoff()
        self._idle_timeout = idle_timeout
        self._page_size = page_size
        self._random = random
        self._clock = clock
        self._version = ""
        self._doubted = False
        self._expired = False
        self._paged = True
        self._opened_at = 0.0
        self._moved = False
        self._fruitless = 0
        self._refused = False
        self._missing = False
        self.reason = "not listed yet"

    @property
    def resource(self) -> Resource:
        return self._resource

    @property
    def store(self) -> Store[Any]:
        return self._store

    @property
    def healthy(self) -> bool:
        return self._store.synced and not self._refused

    @property
    def refused(self) -> bool:
        """True while the server refuses us: 401, 403 or 404."""
        return self._refused

    @property
    def missing(self) -> bool:
        """True while the server does not know the resource: its CustomResourceDefinition is not installed (yet)."""
        return self._missing

    async def run(self) -> None:
        """Runs until cancelled."""
        if self._observer is not None:
            self._observer.began(self._resource.kind, self._store)
        try:
            await self._run()
        finally:
            if self._observer is not None:
                self._observer.ended(self._resource.kind, self._store)

    async def _run(self) -> None:
        while True:
            delay: float | None = None
            self._moved, self._opened_at = False, self._clock()
            try:
                if self._version and self._doubted:
                    await self._check_version()
                if not self._version:
                    await self._list()
                    self._opened_at = self._clock()
                await self._watch()
                reason = "eof"
            except TimeoutError:
                reason, self._doubted = "idle", True
                self.reason = f"watch of {self._resource.plural}: silent for {self._idle_timeout:g} s"
            except ApiError as error:
                reason, delay = self._fault(error), error.delay
            except Exception:  # the wall of a background task: a bug here must not end the cache silently
                log.exception("reflector failed", kind=self._resource.kind)
                reason, self._version = "internal", ""
                self.reason = f"watch of {self._resource.plural}: internal error"
            await self._pause(reason, delay)

    def _fault(self, error: ApiError) -> str:
        self.reason = str(error)
        self._doubted = True
        if error.status in (401, 403, 404):
            self._refused = True
        self._missing = error.status == 404 and bool(self._resource.group)
        if self._missing:
            # It was heard of: a cluster without the definition has no such objects, and the cache is not stale.
            self._store.touch()
            self.reason += f" (is the definition of {self._resource.plural}.{self._resource.group} installed?)"
        if error.expired or (error.status == 400 and self._version):
            # 400 is how a server answers a version that it cannot read, as after a restore.
            self._version = ""
        if error.status == 0:
            return "transport"
        return _REASONS.get(error.status, "server_error" if error.status >= 500 else "client_error")

    async def _pause(self, reason: str, delay: float | None) -> None:
        """Waits before the next try: not at all after a sound watch, longer and longer after fruitless ones."""
        settled = self._clock() - self._opened_at >= SETTLED
        self._fruitless = 0 if self._moved else self._fruitless + 1
        if self._fruitless >= FRUITLESS_LIMIT:
            self._version, self._fruitless = "", 0
        if settled:
            self._backoff.reset()
        elif (self._moved and reason != "expired") or (reason == "expired" and not self._expired):
            # Progress, but short-lived: small pauses again, yet never none, lest a server that hangs up after each
            # event be asked without end. The first 410 is progress too: the server is back, and we know that the
            # cache is behind.
            self._backoff.reset(1)
        self._expired = reason == "expired"
        if self._observer is not None:
            self._observer.restart(self._resource.kind, reason)
        if settled and self._moved and delay is None and reason == "eof":
            return
        seconds = self._backoff.next(at_least=delay)
        log.info(
            "watch restarts",
            kind=self._resource.kind,
            reason=reason,
            delay_s=round(seconds, 3),
            detail="" if reason == "eof" else self.reason,
        )
        await asyncio.sleep(seconds)

    async def _check_version(self) -> None:
        """Has all listed again where the server is behind the version that we hold.

        Its data was restored from an older copy then. It does not refuse a watch from the future: it keeps it open
        and silent, and the cache would show what is gone.
        """
        page = await self._client.list_page(
            self._resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=1,
        )
        self._doubted = False
        if _is_older(page.resource_version, self._version):
            log.warning("the server went back in time", kind=self._resource.kind, version=page.resource_version)
            self._version = ""

    async def _list(self) -> None:
        replacement = self._store.replacement()
        token = ""
        while True:
            try:
                page = await self._client.list_page(
                    self._resource,
                    namespace=self._namespace,
                    label_selector=self._label_selector,
                    field_selector=self._field_selector,
                    limit=self._page_size if self._paged else 0,
                    continue_token=token,
                )
            except ApiError as error:
                if error.expired and token:
                    # Pages came slower than the server keeps versions; the whole in one answer always ends.
                    self._paged = False
                raise
            self._store.touch()
            for obj in page.items:
                try:
                    replacement.add(obj)
                except PoisonError as error:
                    self._poison(error)
            token = page.continue_token
            if not token:
                break
            await asyncio.sleep(0)
        self._paged = True
        self._doubted = False
        self._version = page.resource_version
        diff = replacement.commit()
        self._store.mark_synced()
        log.debug("listed", kind=self._resource.kind, objects=len(self._store), changed=bool(diff))

    async def _watch(self) -> None:
        """Applies events until the stream ends; TimeoutError if it falls silent."""
        stream = self._client.watch(
            self._resource,
            resource_version=self._version,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=240 + int(60 * self._random()),
        )
        loop = asyncio.get_running_loop()
        # Every implementation is an async generator; the protocol need not say so.
        closable = aclosing(cast("AsyncGenerator[bytes, None]", stream))
        async with closable as lines, asyncio.timeout(self._idle_timeout) as idle:
            async for line in lines:
                idle.reschedule(loop.time() + self._idle_timeout)
                self._store.touch()
                self._refused, self._missing, self.reason = False, False, ""
                if line:
                    self._event(line)

    def _event(self, line: bytes) -> None:
        try:
            event = decode_json(line)
            kind, obj = event["type"], event["object"]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, KeyError) as error:
            self._poison(error)
            return
        if kind == "ERROR":
            status = obj if isinstance(obj, dict) else {}
            raise error_of_status(f"WATCH {self._resource.plural}", status)
        try:
            if kind in ("ADDED", "MODIFIED"):
                self._store.upsert(obj)
            elif kind == "DELETED":
                self._store.remove(*key_of(obj))
        except PoisonError as error:
            self._poison(error)
        self._advance(obj)

    def _advance(self, obj: JSON) -> None:
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(version, str) and version and version != self._version:
            self._version = version
            self._moved = True

    def _poison(self, error: Exception) -> None:
        log.warning("object skipped", kind=self._resource.kind, error=str(error) or type(error).__name__)
        if self._observer is not None:
            self._observer.poison(self._resource.kind)


def _is_older(version: str, other: str) -> bool:
    """Whether a resource version comes before another; versions that are no numbers cannot be compared."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)
