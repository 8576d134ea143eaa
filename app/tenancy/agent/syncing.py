"""Keeps objects of this cluster and what the gateway has equal: what every kind of them has in common.

Level-based: an object is looked at when it changes on either side. All of them are looked at each time that the gateway
has told everything anew, and now and then. Nothing is removed before both sides are fully known.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from app.errors import BerthError
from app.kube.backoff import Backoff
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, RequeueAfter, Result
from app.kube.events import Events
from app.kube.queue import WorkQueue
from app.kube.resources import Resource
from app.kube.retry import get_or_none
from app.kube.store import Store
from app.tenancy.agent.answers import Answers
from app.tenancy.agent.connection import Connection
from app.tenancy.agent.faults import GatewayRefused, GatewayUnavailable
from app.tenancy.agent.options import AgentOptions, Stream
from app.tenancy.agent.remote import Remote
from app.tenancy.agent.statuses import Patience, Report, StatusWriter, in_terms_of_the_object
from app.tenancy.agent.views import ObjectView, project_object

log = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """What all of them work with: the tenant cluster, the gateway, the options, and who is told."""

    client: KubeClient
    connection: Connection
    options: AgentOptions
    events: Events | None = None


class Syncer(ABC, Generic[T]):
    """Objects of one resource: `store` holds those of this cluster, `remote` what the gateway tells."""

    def __init__(
        self, name: str, context: Context, resource: Resource, store: Store[ObjectView], remote: Remote[T]
    ) -> None:
        options = context.options
        self._client, self._options, self._namespace = context.client, options, options.namespace
        self._resource = resource
        self._store, self._remote = store, remote
        self._writer = StatusWriter(context.client, resource, namespace=options.namespace, events=context.events)
        self._controller: Controller[str] = Controller(
            f"agent-{name}",
            self._reconcile,
            stores=(store,),
            keys=self._names,
            workers=options.workers,
            resync=None,  # the sweep enqueues
            queue=WorkQueue(base=options.backoff_base, cap=options.backoff_cap),
        )
        store.subscribe(lambda _event, key, *_: self._controller.enqueue(key[1]))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._controller.run())
            tasks.create_task(self._sweep())

    async def _sweep(self) -> None:
        """At each round of the remote and then every `resync` seconds: look at everything."""
        backoff = Backoff(base=self._options.backoff_base, cap=self._options.resync)
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
                pause = self._options.resync
                self._enqueue_all()
            try:
                async with asyncio.timeout(pause):
                    await self._remote.next_round(rounds)
            except TimeoutError:
                continue

    async def _learn(self) -> None:
        """What the remote does not tell. Raises BerthError."""

    def _there(self) -> Iterable[str]:
        return self._remote.items

    def _names(self) -> list[str]:
        here = {name for _, name in self._store.keys()}  # noqa: SIM118  a Store is no mapping
        return sorted(here.union(self._there()))

    def _enqueue_all(self) -> None:
        for name in self._names():
            self._controller.enqueue(name)

    @abstractmethod
    async def _reconcile(self, name: str) -> Result:
        """Make the two sides of this name equal."""


class Requests(Syncer[T]):
    """Objects that ask the gateway for something: each is sent, shows the answer in its status, and is removed there.

    Only what an agent owns is ever removed.
    """

    stream: ClassVar[Stream]
    stub: ClassVar[Any]
    """The class of the service's stub."""
    volatile: ClassVar[bool] = False
    """Whether a success may become untrue without a change of the spec."""

    def __init__(
        self, name: str, context: Context, resource: Resource, store: Store[ObjectView], remote: Remote[T]
    ) -> None:
        super().__init__(name, context, resource, store, remote)
        self._connection = context.connection
        self._patience = Patience(self._options.patience)
        self._answers = Answers(base=self._options.refusal_pause, cap=self._options.resync)
        context.connection.subscribe(self.stream, self._enqueue_all)

    @abstractmethod
    async def _converge(self, view: ObjectView) -> None:
        """Send the object where that is needed, and show what the gateway says. Raises GatewayRefused."""

    @abstractmethod
    def _owns(self, name: str) -> bool:
        """Whether the gateway has one of this name that an agent has sent."""

    @abstractmethod
    def _deletion(self, name: str) -> Any:
        """The request that removes it there."""

    def _asks(self, view: ObjectView) -> bool:  # noqa: ARG002 - for those of which some do not
        """Whether the object is a request."""
        return True

    async def _learn(self) -> None:
        self._answers.clear()  # what was refused is asked again

    async def _reconcile(self, name: str) -> Result:
        view = self._store.get(self._namespace, name)
        if view is not None and not self._asks(view):
            view = None
        if not self._remote.synced:
            return Done() if view is None else await self._unreached(view)
        if view is None:
            await self._remove(name)
            return Done()
        try:
            await self._converge(view)
        except GatewayRefused as error:
            await self._writer.report(view, Report("error", error.reason, in_terms_of_the_object(str(error))))
        except GatewayUnavailable as error:
            if not self._patience.left(name):
                await self._writer.report(view, Report("error", error.reason, str(error)))
            raise
        self._patience.settle(name)
        return self._answers.next(name)

    async def _unreached(self, view: ObjectView) -> Result:
        """What to do while the gateway is out of reach: nothing for a while, then report it.

        An error about the present spec stays, and so does a success, unless it is volatile: then it is not known any
        more. Where the gateway refuses all calls the status is an error at once. Raises ApiError.
        """
        if refusal := self._connection.refusal(self.stream):
            await self._writer.report(view, Report("error", "FailedPrecondition", refusal))
            return Done()
        if view.observed and not (self.volatile and view.result == "success"):
            return Done()
        left = self._patience.left(view.name)
        if left > 0:
            return RequeueAfter(left)
        problem = self._connection.problem(self.stream)
        await self._writer.report(view, Report("" if view.observed else "error", "GatewayUnavailable", problem))
        return Done()

    async def _call(self, method: str, request: Any) -> Any:
        """One call of the service. Raises GatewayRefused and GatewayUnavailable."""
        return await self._connection.call(self.stub, method, request)

    async def _remove(self, name: str) -> None:
        self._patience.settle(name)
        self._answers.drop(name)
        if not self._owns(name) or await self._exists(name):
            return
        try:
            await self._call("Delete", self._deletion(name))
        except GatewayRefused as error:
            if not error.not_found:
                raise
        self._removed(name)
        log.info("object removed", kind=self._resource.kind, name=name)

    def _removed(self, name: str) -> None:
        """The gateway does not have it any more."""

    async def _exists(self, name: str) -> bool:
        """Ask the API server itself: a cache may lag behind another agent that has just sent a new object."""
        found = await get_or_none(self._client, self._resource, name, namespace=self._namespace)
        view = project_object(found) if found is not None else None
        return view is not None and self._asks(view)
