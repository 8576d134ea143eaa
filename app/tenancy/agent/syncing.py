"""Keeps objects of this cluster equal to what the gateway has: what all kinds of them have in common.

Level-based: an object is looked at when it changes on either side. All are looked at when the gateway has sent
everything anew, and now and then. Nothing is removed before both sides are fully known.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from app.errors import BerthError
from app.kube.client import KubeClient
from app.kube.conditions import ReadyEvents
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.events import EventRecorder, Regarding
from app.kube.queue import WorkQueue
from app.kube.resources import Resource
from app.kube.retry import Backoff, get_or_none, if_there
from app.tenancy.agent.answers import Answers, GatewayRefused, GatewayUnavailable
from app.tenancy.agent.connection import Connection
from app.tenancy.agent.remote import Remote, Watch
from app.tenancy.agent.settings import AgentOptions
from app.tenancy.agent.views import Objects, ObjectView, Outcome, in_terms_of_the_object, project_object
from app.tenancy.messages import canonical
from app.wire import JSON

log = structlog.get_logger(__name__)

_MANAGER = "berth-agent"
_WORKERS = 4
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """What all syncers work with. `events` records changes of the condition Ready."""

    client: KubeClient
    connection: Connection
    options: AgentOptions
    events: EventRecorder | None = None


class Syncer(ABC, Generic[T]):
    """Objects of one resource: `store` holds those of this cluster, `remote` those of the gateway."""

    def __init__(self, name: str, context: Context, resource: Resource, store: Objects, remote: Remote[T]) -> None:
        self._client, self._options = context.client, context.options
        self._namespace = context.options.settings.namespace
        self._resource, self._store, self._remote = resource, store, remote
        self._events = ReadyEvents(context.events)
        self._controller: Controller[str] = Controller(
            f"agent-{name}",
            self._look_at,
            stores=(store,),
            keys=self._names,
            workers=_WORKERS,
            resync=None,  # the sweep enqueues
            queue=WorkQueue(base=context.options.backoff_base, cap=context.options.backoff_cap),
        )
        store.subscribe(lambda _event, key, *_: self._controller.enqueue(key[1]))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._controller.run())
            tasks.create_task(self._sweep())

    @abstractmethod
    async def _reconcile(self, name: str) -> float | None:
        """Make the two sides of this name equal; the seconds after which to look at it again in any case."""

    async def _learn(self) -> None:
        """Ask the gateway for what its stream does not send. Raises BerthError."""

    def _there(self) -> Iterable[str]:
        return self._remote.items

    async def _report(
        self, view: ObjectView, result: Outcome, reason: str, message: str = "", extra: JSON | None = None
    ) -> None:
        """Show an outcome in the status. An empty result means that nothing is known yet. Raises ApiError."""
        await self._write_status(view, view.status_of(result, reason, message, extra or {}))

    async def _write_status(self, view: ObjectView, status: JSON) -> None:
        """Make `status` the whole of what we say of the object; one that is gone needs none. Raises ApiError."""
        if canonical(status) == view.status:
            return
        resource, namespace = self._resource, self._namespace
        body = resource.body({"name": view.name, "namespace": namespace}, status=status)
        written = await if_there(
            self._client.apply(
                resource, view.name, body, namespace=namespace, field_manager=_MANAGER, subresource="status"
            )
        )
        if written is not None:
            regarding = Regarding(resource.api_version, resource.kind, view.name, namespace, view.uid)
            self._events.changed(regarding, before=view.decoded_status(), after=status)

    async def _look_at(self, name: str) -> Result:
        again = await self._reconcile(name)
        return Done() if again is None else RequeueAfter(again)

    async def _sweep(self) -> None:
        """At each round of the remote and then every `resync` seconds: look at everything."""
        backoff = Backoff(base=self._options.backoff_base, cap=self._options.settings.resync_seconds)
        await self._store.wait_synced()
        while True:
            await self._remote.next_round(0)
            rounds = self._remote.rounds
            try:
                await self._learn()
            except BerthError as error:
                log.info("objects at the gateway not listed", kind=self._resource.kind, error=str(error))
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
        here = {name for _, name in self._store.keys()}  # noqa: SIM118  a Store is no mapping
        return sorted(here.union(self._there()))

    def _enqueue_all(self) -> None:
        for name in self._names():
            self._controller.enqueue(name)


class Requests(Syncer[T]):
    """Objects that ask the gateway for something: each is sent, shows the answer in its status, and is removed there.

    Only what an agent owns is ever removed.
    """

    volatile: ClassVar[bool] = False
    """Whether a success may become untrue without a change of the spec."""

    def __init__(self, name: str, context: Context, resource: Resource, store: Objects, remote: Watch[T]) -> None:
        super().__init__(name, context, resource, store, remote)
        self._connection, self._stream, self._stub = context.connection, remote.stream, remote.stub
        self._unanswered: dict[str, float] = {}
        self._answers = Answers(base=self._options.refusal_pause, cap=self._options.settings.resync_seconds)
        context.connection.subscribe(self._stream, self._enqueue_all)

    @abstractmethod
    async def _converge(self, view: ObjectView) -> None:
        """Send the object where that is needed, and show what the gateway says. Raises GatewayRefused."""

    @abstractmethod
    def _deletion(self, name: str) -> Any:
        """The request that removes it there; None where the gateway has none of this name that an agent has sent."""

    def _asks(self, view: ObjectView) -> bool:  # noqa: ARG002 - for those of which some do not
        """Whether the object is a request."""
        return True

    def _removed(self, name: str) -> None:
        """The gateway does not have it any more."""

    async def _learn(self) -> None:
        self._answers.clear()  # what was refused is asked again

    async def _reconcile(self, name: str) -> float | None:
        view = self._store.get(self._namespace, name)
        if view is not None and not self._asks(view):
            view = None
        if not self._remote.synced:
            return None if view is None else await self._unreached(view)
        if view is None:
            await self._remove(name)
            return None
        try:
            await self._converge(view)
        except GatewayRefused as error:
            await self._report(view, "error", error.reason, in_terms_of_the_object(str(error)))
        except GatewayUnavailable as error:
            if not self._patience(name):
                await self._report(view, "error", error.reason, str(error))
            raise
        self._unanswered.pop(name, None)
        return self._answers.next(name)

    async def _unreached(self, view: ObjectView) -> float | None:
        """What to do while the gateway is out of reach: nothing for a while, then report it.

        An error about the present spec stays, and so does a success, unless it is volatile: then it is not known any
        more. Where the gateway refuses all calls the status is an error at once. Raises ApiError.
        """
        if refusal := self._connection.refusal(self._stream):
            await self._report(view, "error", "FailedPrecondition", refusal)
        elif not view.observed or (self.volatile and view.result == "success"):
            if left := self._patience(view.name):
                return left
            problem = self._connection.problem(self._stream)
            await self._report(view, "" if view.observed else "error", "GatewayUnavailable", problem)
        return None

    def _patience(self, name: str) -> float:
        """Seconds until the gateway's silence is reported, counted from the first question."""
        began = self._unanswered.setdefault(name, time.monotonic())
        return max(0.0, began + self._options.patience - time.monotonic())

    async def _call(self, method: str, request: Any) -> Any:
        """One call of the service. Raises GatewayRefused and GatewayUnavailable."""
        return await self._connection.call(self._stub, method, request)

    async def _remove(self, name: str) -> None:
        self._unanswered.pop(name, None)
        self._answers.drop(name)
        request = self._deletion(name)
        if request is None or await self._exists(name):
            return
        try:
            await self._call("Delete", request)
        except GatewayRefused as error:
            if not error.not_found:
                raise
        self._removed(name)
        log.info("object removed", kind=self._resource.kind, name=name)

    async def _exists(self, name: str) -> bool:
        """Ask the API server itself: a cache may lag behind another agent that has just sent a new object."""
        found = await get_or_none(self._client, self._resource, name, namespace=self._namespace)
        view = project_object(found) if found is not None else None
        return view is not None and self._asks(view)
