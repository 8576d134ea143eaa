"""GET with watch=true: from a resource version on, through bookmarks, until its timeout or the server's end.

A watcher keeps only its position in the history and has no queue. A watcher that falls behind the kept window gets
status 410 and ends; other watchers are not affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.devtools.sandbox.api.call import Call, Reply
from app.devtools.sandbox.api.failures import expired, invalid
from app.devtools.sandbox.api.forms import negotiate, watch_form
from app.devtools.sandbox.api.reading import selection_of
from app.devtools.sandbox.history import CompactedError
from app.kinds.fielderrors import FieldError
from app.wire import JSON, encode_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from app.devtools.sandbox.api.selection import Selection
    from app.devtools.sandbox.history import Event
    from app.devtools.sandbox.kinds.builtin import ApiResource
    from app.devtools.sandbox.state import ClusterState
    from app.devtools.sandbox.storage import Storage

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a watch request asks for; `version` None or 0 starts with the objects that exist now."""

    namespace: str
    selection: Selection
    version: int | None
    bookmarks: bool
    timeout: float
    bookmark_interval: float
    initial_events: bool = False


def watch_objects(state: ClusterState, call: Call) -> Reply:
    """The stream of changes that `watch=true` asks for."""
    initial = call.flag("sendInitialEvents")
    if initial and call.query.get("resourceVersionMatch") != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid("meta.k8s.io", "ListOptions", "", [FieldError("resourceVersionMatch", "Forbidden", text)])
    timeout = call.integer("timeoutSeconds")
    form, resource = negotiate(call), call.resource
    options = WatchOptions(
        namespace=call.namespace,
        selection=selection_of(call),
        version=call.integer("resourceVersion"),
        bookmarks=call.flag("allowWatchBookmarks"),
        timeout=float(timeout) if timeout else random.uniform(1800, 3600),  # noqa: S311 - spreads clients, no secret
        bookmark_interval=state.bookmark_interval,
        initial_events=initial,
    )
    render = watch_form(resource, form)
    lines = watch_lines(state.storage, resource, options, render=render, shared=not form.kind)
    return Reply(200, lines, "application/json;stream=watch" if form.kind else "application/json")


async def watch_lines(
    storage: Storage,
    resource: ApiResource,
    options: WatchOptions,
    *,
    render: Callable[[JSON], JSON],
    shared: bool,
) -> AsyncIterator[bytes]:
    """JSON lines of watch events. `render` gives an object's outward form; `shared` says it is the same for all."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + options.timeout
    next_bookmark = loop.time() + options.bookmark_interval
    table = storage.table(resource.key)
    resumed = bool(options.version) and not options.initial_events
    # A version of the future is accepted; changes up to it are not news.
    floor = options.version if resumed and options.version else storage.version
    try:
        position = storage.position(resource.key, floor)
        if not resumed:
            for line in _present(storage, resource, options, render=render):
                yield line
        while True:
            changed = table.changed
            for event in table.since(position):
                position += 1
                known = event.version <= floor
                news = None if known else _render_event(event, resource, options, render=render, shared=shared)
                if news is not None:
                    yield news
            if position < table.end:
                continue  # more came while lines were sent; a bookmark now would hide it
            now = loop.time()
            if now >= deadline or storage.closed:
                return
            if options.bookmarks and now >= next_bookmark:
                yield _bookmark(resource, max(floor, storage.version))
                next_bookmark = now + options.bookmark_interval
            pause = min(deadline, next_bookmark if options.bookmarks else deadline) - now
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await changed.wait()
    except CompactedError as error:
        yield _line("ERROR", expired(str(error)).status)


def _present(
    storage: Storage, resource: ApiResource, options: WatchOptions, *, render: Callable[[JSON], JSON]
) -> list[bytes]:
    """What a watch without a version starts with: every object that exists, as if it had just been added."""
    version = storage.version
    objects = storage.list(resource.key, options.namespace)
    lines = [_line("ADDED", render(obj)) for obj in objects if options.selection.matches(obj)]
    if options.initial_events and options.bookmarks:
        lines.append(_bookmark(resource, version, initial=True))
    return lines


def _render_event(
    event: Event,
    resource: ApiResource,
    options: WatchOptions,
    *,
    render: Callable[[JSON], JSON],
    shared: bool,
) -> bytes | None:
    """The line of one change as this watcher's selection sees it, None where it does not."""
    if options.namespace and event.pair[0] != options.namespace:
        return None
    kind, obj, whole = str(event.type), event.object, True
    if not options.selection.everything:
        previous = event.previous
        was = previous is not None and options.selection.matches(previous)
        now = event.type != "DELETED" and options.selection.matches(obj)
        if not was and not now:
            return None
        if was and not now and previous is not None:
            # An object that leaves the selection looks deleted: as it was, with the version of the change.
            kind, whole = "DELETED", False
            obj = {**previous, "metadata": {**previous["metadata"], "resourceVersion": str(event.version)}}
        elif now and not was:
            kind = "ADDED"
    if not shared or not whole:
        return _line(kind, render(obj))
    key = f"{kind} {resource.api_version}"
    line = event.encoded.get(key)
    if line is None:
        line = event.encoded[key] = _line(kind, render(obj))
    return line


def _line(kind: str, obj: JSON) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), encode_json(obj))


def _bookmark(resource: ApiResource, version: int, *, initial: bool = False) -> bytes:
    metadata: JSON = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return _line("BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})
