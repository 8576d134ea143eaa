"""Keeps a store equal to what the API server holds: list, watch, resume, list again and compare.

It never gives up and never ends by itself. Every exit that brought nothing new is followed by a growing, jittered
pause.

A resource version has a meaning in one history alone, and an API server whose storage was restored has another one.
No answer says so: a restored server that has passed the version that we hold accepts a watch from it. So a watch is
resumed only where the server ended it cleanly at the time that we asked for. After every other end the cache is in
doubt until a list has been compared with it. All lists are consistent reads in pages; see ADR 10.
"""

from __future__ import annotations

import asyncio
import random as _random
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog

from app.errors import ApiError
from app.kube import answers, metrics
from app.kube.client import KubeClient
from app.kube.fanout import Fanout, Renewal
from app.kube.release import release_of, unserved
from app.kube.resources import Resource, is_built_in
from app.kube.retry import Backoff, get_or_none
from app.kube.store import PoisonError, Store, key_of
from app.kube.walls import fault
from app.numbers import whole_or
from app.wire import JSON, decode_json

log = structlog.get_logger(__name__)

T = TypeVar("T")

IDLE_TIMEOUT = 90.0
"""Seconds of silence after which a watch counts as half-open; API servers send a bookmark about once a minute."""
_SLACK = 0.01
"""The part of the idle timeout by which a silence may be noticed too early."""
SETTLED = 30.0
"""A watch that lived for so many seconds was sound, whether or not there was something to say."""
_EARLY = 1.0
"""Seconds that a server's clock may be faster than ours over the length of a watch."""
RELIST = (600.0, 1800.0)
"""Seconds between two lists where nothing raises a doubt, drawn each time: a replaced server may go unnoticed."""
PAGE_SIZE = 500
_LEAST_PAGE = 10

REASONS = {401: "unauthorized", 403: "forbidden", 404: "missing", 410: "expired", 429: "throttled"}
"""Why a watch is started again, by the status of the answer."""


class _ContradictionError(Exception):
    """The watch says what cannot follow from what it said before."""


class Scope(NamedTuple):
    """What one list and watch is of. `namespace` None is all of them, `name` "" every object."""

    resource: Resource
    namespace: str | None = None
    name: str = ""
    label_selector: str = ""
    field_selector: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """Those of the client's list and watch."""
        fields = f"metadata.name={self.name}" if self.name else self.field_selector
        return {"namespace": self.namespace, "label_selector": self.label_selector, "field_selector": fields}


class Reflector:
    """Keeps one store of a scope, and those that it has to `serve` beside it.

    `healthy` is False until the first full list, and while the server refuses us (401, 403, 404).

    Other faults leave it alone: they put the stores `in_doubt` until the next full list. `problem` covers both.
    `reason` names the last fault of any kind, "" when there is none; the `age` of a store says how long it has lasted.
    `unanswered` is whether the last request had no answer, or one of a fault of the server (5xx); `heard` is called
    when that is known anew.
    `called` is the kind in the metrics, to distinguish several caches of a kind.

    Where the scope names an object, a role may have the right to get it and no right to list: while lists are refused,
    it is read with a GET every `poll` seconds, and if that is allowed the reflector is healthy.
    """

    def __init__(
        self,
        client: KubeClient,
        scope: Scope,
        store: Store[T],
        *,
        called: str = "",
        backoff: Backoff | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
        page_size: int = PAGE_SIZE,
        poll: float = 5.0,
        random: Callable[[], float] = _random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self.scope, self.resource = client, scope, scope.resource
        self._caches = Fanout(scope.resource)
        self._caches.add(store, called)
        self._backoff = backoff or Backoff()
        self._idle_timeout, self._poll = idle_timeout, poll
        self._page_size = self._limit = page_size
        self._random, self._clock = random, clock
        self.version = ""
        """Where to watch from; "" where a list is needed."""
        self._former = ""
        """The version that was held when the doubt began; "" where there is none."""
        self._due = self._opened_at = 0.0
        self._paged = True
        self._expired = self._moved = self._open = self._refused = self._polled = False
        self.missing = False
        """True while the server does not know the resource: its CustomResourceDefinition is not installed (yet)."""
        self.reason = "not listed yet"
        self.started = self.unanswered = False
        self.heard: Callable[[], object] = lambda: None

    def serve(self, store: Store[Any], *, called: str = "") -> None:
        """Keep another store of the same objects. Raises RuntimeError when the watch runs already."""
        if self.started:
            raise RuntimeError(f"the watch of {self.resource.plural} runs already")
        self._caches.add(store, called)

    @property
    def stores(self) -> tuple[Store[Any], ...]:
        return self._caches.stores

    @property
    def healthy(self) -> bool:
        return all(store.synced for store in self.stores) and (self._polled or not self._refused)

    @property
    def problem(self) -> str:
        """Why the cache is not known to show what the server holds, on one line; "" where it is."""
        if self.healthy and not any(store.in_doubt for store in self.stores):
            return ""
        return f"{self.resource.plural}: {self.reason or 'not listed yet'}"

    async def run(self) -> None:
        """Runs until cancelled."""
        self.started = True
        with self._caches.kept():
            while True:
                await self._follow()

    async def _follow(self) -> None:
        """One watch, after a list where one is due, and the pause after it."""
        delay: float | None = None
        self._moved = self._open = False
        self._opened_at = self._clock()
        try:
            if not self.version or self._clock() >= self._due:
                await self._list()
                self._opened_at = self._clock()
            reason = await self._watch()
        except TimeoutError:
            reason = "idle"
            # A connection may be half-open, or a server may send no bookmarks of a kind that has never changed: list.
            # It is no doubt yet: the latter happens every minute and a half, and the list says which it was.
            self.reason = f"watch of {self.resource.plural}: silent for {self._idle_timeout:g} s"
            self._former, self._due = self.version, self._clock()
        except _ContradictionError as error:
            reason, self._moved = "contradiction", False
            self._doubt(f"watch of {self.resource.plural}: {error}")
        except ApiError as error:
            reason, delay = self._fault(error), error.delay
            await self._say_unserved()
        except Exception:  # noqa: BLE001  the wall of a background task: a bug here must not end the cache silently
            fault(f"watch-{self.resource.plural}", "reflector failed", kind=self.resource.kind)
            reason = "internal"
            self._doubt(f"watch of {self.resource.plural}: internal error")
        await self._pause(reason, delay)

    def _doubt(self, reason: str) -> None:
        """The server may be another one from here on, or restored: only a list shows what there is."""
        self.reason = reason
        if self.version:
            self._former, self.version = self.version, ""
            self._caches.suspect()
            log.warning("cache in doubt", kind=self.resource.kind, version=self._former, reason=reason)

    def _hear(self, *, answered: bool) -> None:
        self.unanswered = not answered
        self.heard()

    def _fault(self, error: ApiError) -> str:
        self._doubt(str(error))
        if not self._open:  # a watch that breaks is no answer that is missing: the next list tells
            self._hear(answered=0 < error.status < 500)
        if error.status in (401, 403, 404):
            self._refused = True
        self.missing = error.status == 404 and bool(self.resource.group)
        if self.missing:
            # It was heard of: a cluster without the definition has no such objects, and the cache is not stale.
            self._caches.touch()
            if not is_built_in(self.resource.group):
                self.reason += f" (is the definition of {self.resource.plural}.{self.resource.group} installed?)"
        if error.status == 0:
            return "transport"
        return REASONS.get(error.status, "server_error" if error.status >= 500 else "client_error")

    async def _say_unserved(self) -> None:
        """Of a kind of Kubernetes itself: the version of the server decides."""
        if self.missing and is_built_in(self.resource.group):
            try:
                self.reason += f" ({unserved(self.resource, await release_of(self._client))})"
            except ApiError:
                pass  # the next try says it
            except Exception:  # noqa: BLE001  no answer about the version may end the watch
                fault(f"watch-{self.resource.plural}", "version unknown", kind=self.resource.kind)

    async def _pause(self, reason: str, delay: float | None) -> None:
        """Waits before the next try: not at all after a sound watch, longer and longer after fruitless ones."""
        settled = self._clock() - self._opened_at >= SETTLED
        if settled:
            self._backoff.reset()
        elif (self._moved and reason != "expired") or (reason == "expired" and not self._expired):
            # Progress, but short-lived: small pauses again, and never none, for a server may hang up after each event.
            # The first 410 is progress too: the server is back, and we know that the cache is behind.
            self._backoff.reset(1)
        self._expired = reason == "expired"
        for called in self._caches.called:
            metrics.WATCH_RESTARTS.labels(called, reason).inc()
        if settled and self._moved and self.version:
            return
        seconds = self._backoff.next(at_least=delay)
        kind, delay_s = self.resource.kind, round(seconds, 3)
        log.info("watch restarts", kind=kind, reason=reason, delay_s=delay_s, detail=self.reason)
        while self.scope.name and self._refused:
            await self._get_alone()
            if seconds <= self._poll:
                break
            await asyncio.sleep(self._poll)
            seconds -= self._poll
        await asyncio.sleep(seconds)

    async def _get_alone(self) -> None:
        """Fill the store with a GET of the one object. A passing fault leaves it as it is."""
        kind, name = self.resource.kind, self.scope.name
        try:
            found = await get_or_none(self._client, self.resource, name, namespace=self.scope.namespace)
        except ApiError as error:
            self._hear(answered=0 < error.status < 500)
            self._polled = self._polled and error.status not in (401, 403)
            log.info("poll failed", kind=kind, name=name, error=str(error))
            return
        self._caches.touch()
        self._hear(answered=True)
        self._caches.replace_all([] if found is None else [found])
        if not self._polled:
            log.warning("may neither list nor watch; polling", kind=kind, name=name)
        self._polled = True

    async def _list(self) -> None:
        replacement, options = self._caches.replacement(), self.scope.options
        token = ""
        while True:
            try:
                limit = self._limit if self._paged else 0
                page = await self._client.list_page(self.resource, limit=limit, continue_token=token, **options)
            except ApiError as error:
                if error.expired and token:
                    # Pages came slower than the server keeps versions; the whole in one answer always ends.
                    self._paged = False
                elif error.timed_out:
                    # Very large objects: fewer of them may come in time.
                    self._paged, self._limit = True, max(_LEAST_PAGE, self._limit // 4)
                raise
            self._caches.touch()
            self._hear(answered=True)
            for obj in page.items:
                replacement.add(obj)
            for _ in range(page.skipped):
                self._caches.poison(PoisonError("nested too deeply to be decoded"))
            self._limit = page.limit or self._limit  # those behind it may be as large
            token = page.continue_token
            if not token:
                break
            await asyncio.sleep(0)
        self._paged, self._limit = True, min(self._page_size, 2 * self._limit)
        if _is_older(page.resource_version, self.version):
            self._doubt(f"list of {self.resource.plural}: version {page.resource_version} after {self.version}")
        least, most = RELIST
        self.version, self._due = page.resource_version, self._clock() + least + (most - least) * self._random()
        await self._compare(replacement)

    async def _compare(self, replacement: Renewal) -> None:
        """Make the caches what is listed: a doubt is over, one that begins with what a silent watch missed as well."""
        former, self._former = self._former, ""
        if _is_older(self.version, former):
            log.warning("the server went back in time", kind=self.resource.kind, version=self.version, before=former)
        if former:
            replacement.suspect_where_it_differs()
        await replacement.commit()

    async def _watch(self) -> str:
        """Applies events until the stream ends, or a list is due; says which. TimeoutError if it falls silent."""
        seconds = 240 + int(60 * self._random())
        options = {"resource_version": self.version, "timeout_seconds": seconds, **self.scope.options}
        stream = self._client.watch(self.resource, **options)
        loop, reschedule_at = asyncio.get_running_loop(), 0.0
        async with aclosing(stream) as lines, asyncio.timeout(self._idle_timeout) as idle:
            async for line in lines:
                if (now := loop.time()) >= reschedule_at:  # not for each of thousands of events a second
                    idle.reschedule(now + self._idle_timeout)
                    reschedule_at = now + self._idle_timeout * _SLACK
                self._caches.touch()
                self._open = True
                self._refused = self._polled = self.missing = False
                self.reason = ""
                if line:
                    self._event(line)
                    self._caches.count_failures()
                if self._clock() >= self._due:
                    return "relist"
        if self._clock() - self._opened_at < seconds - _EARLY:
            # A server that stops says good-bye to its watches; what comes back may have been restored.
            self._doubt(f"watch of {self.resource.plural}: ended before its time")
        return "eof"

    def _event(self, line: bytes) -> None:
        try:
            event = decode_json(line)
            kind, obj = event["type"], event["object"]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, KeyError) as error:
            self._caches.poison(error)
            return
        if kind == "ERROR":
            raise answers.error_of_status(f"WATCH {self.resource.plural}", obj if isinstance(obj, dict) else {})
        # What cannot follow from what was seen before raises a doubt, and is not applied.
        version = _version_of(obj)
        if _is_older(version, self.version):
            raise _ContradictionError(f"an event of version {version} after one of version {self.version}")
        try:
            if kind != "BOOKMARK" and self._caches.contradicts(obj):
                raise _ContradictionError(f"{kind} for {'/'.join(key_of(obj))}, which is held with another uid")
            if kind in ("ADDED", "MODIFIED"):
                self._caches.upsert(obj)
            elif kind == "DELETED":
                self._caches.remove(obj)
        except PoisonError as error:
            self._caches.poison(error)
        # A server that sends bookmarks keeps its watches, also where nothing changes.
        self._moved = self._moved or kind == "BOOKMARK" or version not in ("", self.version)
        self.version = version or self.version


def _version_of(obj: JSON) -> str:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""


def _is_older(version: str, other: str) -> bool:
    """Whether a resource version comes before another; versions that are not numbers cannot be compared."""
    return whole_or(version, -1) >= 0 and whole_or(version, -1) < whole_or(other, -1)
