"""Reports the Pods to the gateway: all of them, then every change, and all of them again now and then.

While no stream is open nothing is kept, for the next one begins with everything. On an open one each Pod waits at
most once, and what is sent is its state at that moment.

Which namespaces' Pods are workloads says the ConfigMap `workload-plugin-config`, followed while the agent runs. Its
key `config` holds YAML, `namespaces: [a, b]`. No ConfigMap, no key or an empty list: all namespaces. A text that
cannot be read changes nothing. Nothing is sent before the first text that can be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from app.kube.kit import Kit
from app.kube.names import check_dns_label
from app.kube.resources import CONFIG_MAPS
from app.kube.store import EventType, Key, Store
from app.numbers import whole_or
from app.tenancy.agent import metrics
from app.tenancy.agent.connection import Link
from app.tenancy.agent.settings import AgentOptions, AgentSettings
from app.tenancy.agent.views import PodView
from app.tenancy.messages import LARGEST_MESSAGE
from app.tenancy.proto import workload_pb as pb
from app.wire import JSON, load_yaml

log = structlog.get_logger(__name__)
CONFIG_KEY = "config"
_PENDING_FLOOR = 10_000
_ANSWER_SECONDS, _STATUS_SECONDS = 2.0, 0.05
_METHOD = f"/{pb.DESCRIPTOR.services_by_name['WorkloadService'].full_name}/WorkloadStream"
_SYNCED = pb.WorkloadStreamRequest(synced=pb.WorkloadSynced()).SerializeToString()


class Pending:
    """Workload ids that wait to be sent, oldest first, each with the key of its Pod; at most `limit()` of them.

    Where there would be more, all are dropped and `full` says that everything has to be sent again.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._ids: dict[str, Key] = {}
        self.wake = asyncio.Event()
        self.full = False

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, workload_id: str, key: Key) -> None:
        self._ids.setdefault(workload_id, key)
        if len(self._ids) > self._limit():
            self.renew()
        self.wake.set()

    def renew(self) -> None:
        self._ids.clear()
        self.full = True
        self.wake.set()

    def clear(self) -> None:
        self._ids.clear()
        self.full = False
        self.wake.clear()

    def take(self) -> tuple[str, Key] | None:
        """The oldest one, or None; `wake` is set again by the next `add`."""
        if not self._ids:
            self.wake.clear()
            return None
        workload_id = next(iter(self._ids))
        return workload_id, self._ids.pop(workload_id)


class WorkloadSender:
    """`session` is one stream, from its opening to its end; it begins only once the Pods are known.

    To send the whole of an empty cache would have the gateway remove everything.
    """

    def __init__(self, pods: Store[PodView], namespaces: Namespaces, *, options: AgentOptions) -> None:
        self._pods, self._namespaces, self._options = pods, namespaces, options
        self._pending = Pending(lambda: _PENDING_FLOOR + 2 * len(pods))
        self._open = False
        self._sent: set[str] = set()
        self._too_large: dict[str, bytes] = {}
        self._most = options.max_message
        pods.subscribe(self._changed)
        namespaces.on_change = self._pending.renew

    async def session(self, link: Link) -> None:
        await self._pods.wait_synced()
        await self._namespaces.wait_known()
        # Without a serializer, unlike a stub's: the cache of Pods holds the requests as they are sent.
        stream: Any = link.channel.stream_unary(_METHOD, response_deserializer=pb.WorkloadStreamResponse.FromString)
        call = stream(metadata=link.metadata)
        ended = asyncio.ensure_future(call.code())
        self._open, self._sent = True, set()
        try:
            self._most = min(await _answered(call, ended) or self._options.max_message, self._options.max_message)
            while not ended.done():
                await self._send_all(call)
                if not ended.done():
                    link.up()
                await self._follow(call, ended)
            await call
        finally:
            self._open = False
            self._pending.clear()
            ended.cancel()
            call.cancel()

    def _changed(self, _event: EventType, key: Key, old: PodView | None, new: PodView | None) -> None:
        if not self._open or not self._namespaces.allows(key[0]):
            return
        # A Pod may be replaced by a namesake between two looks: the one before it is gone then.
        if old is not None and (new is None or new.id != old.id):
            self._pending.add(old.id, key)
        if new is not None:
            self._pending.add(new.id, key)

    async def _send_all(self, call: Any) -> None:
        self._pending.clear()
        keys: set[str] = set()
        for key in self._pods.keys():  # noqa: SIM118  a Store is no mapping
            view = self._pods.get(*key)
            if view is not None and self._namespaces.allows(key[0]):
                keys.add(view.id)
                await self._send_one(call, view.id, key)
        for gone in self._too_large.keys() - keys:
            del self._too_large[gone]
        # `synced` covers only ids that were never sent on this stream; the others are deleted one by one.
        for gone in sorted(self._sent - keys):
            await self._delete(call, gone)
        # What changed meanwhile goes before the mark, or it would count as deleted; once, for changes may never cease.
        for _ in range(len(self._pending)):
            if (waiting := self._pending.take()) is not None:
                await self._send_one(call, *waiting)
        await _write(call, _SYNCED)
        metrics.SENT.labels("synced").inc()
        log.debug("workloads sent", count=len(keys))

    async def _follow(self, call: Any, ended: asyncio.Future[Any]) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._options.settings.resync_seconds
        while not ended.done() and not self._pending.full and loop.time() < due:
            waiting = self._pending.take()
            if waiting is not None:
                await self._send_one(call, *waiting)
                continue
            wake = asyncio.ensure_future(self._pending.wake.wait())
            try:
                await asyncio.wait({wake, ended}, timeout=due - loop.time(), return_when=asyncio.FIRST_COMPLETED)
            finally:
                wake.cancel()
            # A Pod's changes come in bursts; of one burst the last state is enough.
            await asyncio.wait({ended}, timeout=self._options.linger)

    async def _send_one(self, call: Any, workload_id: str, key: Key) -> None:
        view = self._pods.get(*key)
        if view is None or view.id != workload_id:
            await self._delete(call, workload_id)
        elif len(view.message) > self._most:
            if self._too_large.get(workload_id) != view.message:
                self._too_large[workload_id] = view.message
                log.warning("Pod skipped: too large to be sent", namespace=key[0], name=key[1], bytes=len(view.message))
                metrics.SKIPPED.labels("too_large").inc()
        else:
            await _write(call, view.message)
            self._sent.add(workload_id)
            metrics.SENT.labels("update").inc()

    async def _delete(self, call: Any, workload_id: str) -> None:
        request = pb.WorkloadStreamRequest(delete=pb.WorkloadDelete(id=workload_id))
        await _write(call, request.SerializeToString())
        self._sent.discard(workload_id)
        metrics.SENT.labels("delete").inc()


def parse_namespaces(text: str) -> frozenset[str]:
    """The namespaces named in a config; none means all. Raises ValueError where it cannot be read."""
    try:
        document = load_yaml(text)
    except ValueError as error:
        raise ValueError(f"no YAML: {error}") from error
    if not isinstance(document, dict | None):
        raise ValueError("want a map with the key namespaces")  # noqa: TRY004  a fault of the text
    names = (document or {}).get("namespaces")
    if not isinstance(names, list | None):
        raise ValueError("namespaces: want a list of names")  # noqa: TRY004  as above
    for index, name in enumerate(names or ()):
        if not isinstance(name, str):
            raise ValueError(f"namespaces[{index}]: want a name")  # noqa: TRY004  as above
        try:
            check_dns_label(name)
        except ValueError as error:
            raise ValueError(f"namespaces[{index}]: {error}") from None
    return frozenset(names or ())


class Namespaces:
    """The filter in force, of a cache of the kit; `problem` is for readiness.

    `on_change` is called after each change of the filter.
    """

    def __init__(self, kit: Kit, settings: AgentSettings) -> None:
        self._namespace, self._name = settings.configmap_namespace, settings.configmap_name
        self.store: Store[str] = kit.cache(
            CONFIG_MAPS, _text, namespace=self._namespace, fields=f"metadata.name={self._name}"
        )
        self.store.subscribe(lambda *_: self._load())
        self._allowed: frozenset[str] | None = None
        self._known = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None
        self.problem = ""

    async def wait_known(self) -> None:
        await self.store.wait_synced()
        self._load()
        await self._known.wait()

    def allows(self, namespace: str) -> bool:
        """False for every namespace while nothing is known."""
        return self._allowed is not None and (not self._allowed or namespace in self._allowed)

    def _load(self) -> None:
        try:
            namespaces = parse_namespaces(self.store.get(self._namespace, self._name) or "")
        except ValueError as error:
            problem = str(error)
            if self.problem != problem:
                log.warning("namespaces of workloads: the last good ones stay", config_map=self._name, problem=problem)
            self.problem = problem
            return
        self.problem = ""
        if namespaces != self._allowed:
            log.info("namespaces of workloads", namespaces=sorted(namespaces) or "all")
            self._allowed = namespaces
            self._known.set()
            self.on_change()


async def _answered(call: Any, ended: asyncio.Future[Any]) -> int:
    """Wait until the gateway takes or refuses the stream, `_ANSWER_SECONDS` at most: a write would hide the refusal.

    The result is how many bytes a message may have, as the gateway says; 0 where it does not say.
    """
    taken = asyncio.ensure_future(call.initial_metadata())
    try:
        await asyncio.wait({taken, ended}, timeout=_ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        # A refusal has headers too; its status arrives just after.
        await asyncio.wait({ended}, timeout=_STATUS_SECONDS)
    finally:
        taken.cancel()
        await asyncio.gather(taken, return_exceptions=True)
    headers = () if taken.cancelled() or taken.exception() is not None else taken.result()
    return whole_or(dict(headers or ()).get(LARGEST_MESSAGE), 0)


async def _write(call: Any, request: bytes) -> None:
    try:
        await call.write(request)
    except asyncio.InvalidStateError:
        await call  # the stream ended a moment ago; this raises what it ended with


def _text(config_map: JSON) -> str:
    text = (config_map.get("data") or {}).get(CONFIG_KEY)
    return text if isinstance(text, str) else ""
