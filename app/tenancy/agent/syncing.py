"""Keeps objects of this cluster equal to what the gateway has: what all kinds of them have in common, and mirrors.

Level-based: an object is looked at when it changes on either side. All are looked at when the gateway has sent
everything again, and now and then. Nothing is removed before both sides are fully known.

A mirror shows the tenant what its rules have created: a UVSPod for each companion, marked as ours. A mirror that is
deleted or edited is restored, one whose companion is gone is removed, and a UVSPod without the mark is never touched.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import structlog

from app.errors import BerthError, Transient
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.events import EventRecorder, ReadyEvents, Regarding
from app.kube.kit import Kit
from app.kube.resources import Resource
from app.kube.retry import Backoff, get_or_none, if_there
from app.kube.store import Key
from app.kube.writing import apply_status
from app.tenancy.agent.outages import NOT_CONNECTED, OF_THE_LINK, UNKNOWN, Outage
from app.tenancy.agent.remote import Pod, Pods, Watch, is_companion, pod_summary
from app.tenancy.agent.settings import AgentOptions
from app.tenancy.agent.views import Objects, ObjectView, Outcome, project_object
from app.wire import decode_json
from app.workloads.model import MIRROR, RULE_NAME, UVS_PODS, WARNED

log = structlog.get_logger(__name__)
_MANAGER = "berth-agent"
T = TypeVar("T")


class Syncer(ABC, Generic[T]):
    """Objects of one kind: `local` are those of this cluster, `remote` those of the gateway.

    The sweep enqueues all of them: the kit needs no resync.
    """

    def __init__(self, name: str, kit: Kit, local: Local, remote: Watch[T]) -> None:
        self._local, self._remote, self._options = local, remote, local.options
        self._controller: Controller[str] = kit.reconcile(
            f"agent-{name}",
            self._look_at,
            stores=(local.store,),
            keys=self._names,
            wakes={local.store: _name},
            turn=None,  # one tenant
            backoff=(self._options.backoff_base, self._options.backoff_cap),
        )
        kit.beside(f"{self._controller.name}-sweep", self._sweep)
        remote.subscribe(self._remote_changed)
        remote.connection.subscribe(remote.stream, self._enqueue_all)

    @abstractmethod
    async def _reconcile(self, name: str) -> float | None:
        """Make the two sides of this name equal; the seconds after which to look at it again in any case."""

    async def _learn(self) -> None:
        """Ask the gateway for what its stream does not send. Raises BerthError."""

    async def _unreached(self, view: ObjectView) -> float | None:
        """What to do while the gateway is out of reach: nothing for a while, then report it.

        An error about the present spec stays. An agent in a wrong cluster is reported at once. Raises ApiError.
        """
        outage = self._remote.connection.outage(self._remote.stream)
        if outage.cause == UNKNOWN:
            return None  # everything is looked at again when it is known
        if not outage.elsewhere:
            if view.observed and view.result == "error" and view.ready_reason not in OF_THE_LINK:
                return None
            if (left := outage.began + self._options.patience - time.monotonic()) > 0:
                return left
        await self._local.report_outage(view, outage)
        return None

    def _remote_changed(self, name: str) -> None:
        self._controller.enqueue(name)

    def _there(self) -> Iterable[str]:
        return self._remote.items

    async def _look_at(self, name: str) -> Result:
        again = await self._reconcile(name)
        return Done() if again is None else RequeueAfter(again)

    async def _sweep(self) -> None:
        """At each round of the remote and then every `resync` seconds: look at everything."""
        backoff = Backoff(base=self._options.backoff_base, cap=self._options.settings.resync_seconds)
        await self._local.store.wait_synced()
        while True:
            await self._remote.next_round(0)
            rounds = self._remote.rounds
            try:
                await self._learn()
            except BerthError as error:
                log.info("objects at the gateway not listed", kind=self._local.resource.kind, error=str(error))
                pause = backoff.next()
            else:
                backoff.reset()
                pause = self._options.settings.resync_seconds
                self._enqueue_all()
            try:
                async with asyncio.timeout(pause):
                    await self._remote.next_round(rounds)
            except TimeoutError:
                continue

    def _names(self) -> list[str]:
        here = {name for _, name in self._local.store.keys()}  # noqa: SIM118  a Store is no mapping
        return sorted(here.union(self._there()))

    def _enqueue_all(self) -> None:
        for name in self._names():
            self._controller.enqueue(name)


class MirrorSync(Syncer[Pod]):
    """`local` are the UVSPods, `pods` the tenant's Pods in the infra cluster, their manifests in canonical form."""

    def __init__(self, kit: Kit, local: Local, pods: Pods) -> None:
        super().__init__("mirrors", kit, local, pods)
        self._marked: set[str] = set()
        self._shadowed: dict[str, str] = {}
        local.store.subscribe(lambda _event, _key, old, new: self._remember(old, new))

    def is_mirror(self, view: ObjectView) -> bool:
        """Whether the agent made the Pod: it has the agent's mark, or had it until the mark was removed."""
        return view.mirror or view.uid in self._marked

    def _remember(self, old: ObjectView | None, new: ObjectView | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._marked.discard(old.uid)
        if new is not None and new.mirror:
            self._marked.add(new.uid)

    async def _reconcile(self, name: str) -> float | None:
        view, pod = self._local.get(name), self._remote.items.get(name)
        if not self._remote.synced:
            # Everything is looked at again once the gateway has sent everything.
            return await self._unreached(view) if view is not None and self.is_mirror(view) else None
        await self._mirror(name, view, pod)
        return None

    async def _mirror(self, name: str, view: ObjectView | None, pod: Pod | None) -> None:
        if pod is None or not is_companion(pod):
            self._shadowed.pop(name, None)
            if view is not None and self.is_mirror(view):
                await self._remove(view)
        elif view is None:
            metadata = {"name": name, "namespace": self._local.namespace, **_marks(pod)}
            body = UVS_PODS.body(metadata, spec={"object": decode_json(pod.manifest)})
            await self._local.client.create(UVS_PODS, body, namespace=self._local.namespace)
            log.info("mirror created", name=name, rule=pod.rule)
        elif not self.is_mirror(view):
            if self._shadowed.get(name) != view.uid:
                self._shadowed[name] = view.uid
                log.warning("no mirror: a UVSPod of that name is not ours", name=name)
        elif view.mirror and view.rule == pod.rule and view.spec == b'{"object":%b}' % pod.manifest:
            await self._local.report(view, "success", "Mirrored", extra=pod_summary(pod))
        else:
            await self._restore(view, pod)

    async def _restore(self, view: ObjectView, companion: Pod) -> None:
        """Make it what it was made as; labels and annotations of others stay."""
        stored = await self._local.client.get(UVS_PODS, view.name, namespace=self._local.namespace)
        metadata = stored["metadata"]
        if metadata.get("uid") != view.uid:
            raise Transient(f"{view.name}: replaced meanwhile")
        for part, marks in _marks(companion).items():
            metadata[part] = {**(metadata.get(part) or {}), **marks}
        stored["spec"] = {"object": decode_json(companion.manifest)}
        await self._local.client.replace(UVS_PODS, view.name, stored, namespace=self._local.namespace)
        log.info("mirror updated", name=view.name, rule=companion.rule)

    async def _remove(self, view: ObjectView) -> None:
        await self._local.delete(view)
        log.info("mirror removed", name=view.name, rule=view.rule)


class Local:
    """`store` holds the objects of `resource` in `namespace`; `events` records changes of their condition Ready."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        store: Objects,
        options: AgentOptions,
        events: EventRecorder | None = None,
    ) -> None:
        self.client, self.resource, self.store, self.options = client, resource, store, options
        self.namespace = options.settings.namespace
        self._events = ReadyEvents(events, warned=WARNED)

    def get(self, name: str) -> ObjectView | None:
        """The object as the cache has it."""
        return self.store.get(self.namespace, name)

    async def read(self, name: str) -> ObjectView | None:
        """The object as the API server has it: a cache may lag behind another agent."""
        obj = await get_or_none(self.client, self.resource, name, namespace=self.namespace)
        return project_object(obj) if obj is not None else None

    async def delete(self, view: ObjectView) -> None:
        """Delete this object; one that is gone need not be."""
        await if_there(self.client.delete(self.resource, view.name, namespace=self.namespace, uid=view.uid))

    async def report(
        self,
        view: ObjectView,
        result: Outcome,
        reason: str,
        message: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Show an outcome in the status. An empty result means that nothing is known yet. Raises ApiError."""
        await self.write_status(view, view.status_of(result, reason, message, extra or {}))

    async def report_outage(self, view: ObjectView, outage: Outage) -> None:
        """Show that the agent is not connected. An object that shows it already is not written. Raises ApiError."""
        shown = view.observed
        if shown and view.ready_reason == NOT_CONNECTED and outage.shown_by(view.message):
            return
        # What was a success is not known any more. What was never sent is an error, as is an agent in a wrong cluster.
        shows_outage = shown and view.result != "error" and not outage.elsewhere
        await self.report(view, "" if shows_outage else "error", NOT_CONNECTED, outage.message)

    async def write_status(self, view: ObjectView, status: dict[str, Any]) -> None:
        """Make `status` the whole of what we say of the object; one that is gone needs none. Raises ApiError."""
        if view.shows(status):
            return
        key = self.namespace, view.name
        written = await apply_status(self.client, self.resource, key, view.uid, status, manager=_MANAGER)
        if written is not None:
            regarding = Regarding.of(self.resource, key, view.uid)
            self._events.changed(regarding, before=view.decoded_status(), after=status)


def _name(key: Key, _old: object, _new: object) -> Iterable[str]:
    """All of one kind are in one namespace."""
    return (key[1],)


def _marks(companion: Pod) -> dict[str, dict[str, str]]:
    return {"labels": {MIRROR: "true"}, "annotations": {RULE_NAME: companion.rule}}
