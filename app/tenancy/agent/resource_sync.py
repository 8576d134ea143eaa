"""Keeps the tenant's own objects in the infra cluster: what the UVS objects of one kind ask for, and nothing else.

Applies each, shows the answer in its status, and removes what an agent made for a UVS object that is no more. Mirrors
are no requests. Nothing is deleted before both sides are fully known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from app.errors import ApiError, BerthError
from app.kube.backoff import Backoff
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, Result
from app.kube.events import Events
from app.kube.queue import WorkQueue
from app.kube.store import Store
from app.tenancy.agent.answers import Answers
from app.tenancy.agent.connection import Connection
from app.tenancy.agent.faults import GatewayRefused, GatewayUnavailable
from app.tenancy.agent.options import AgentOptions
from app.tenancy.agent.remote import Remote
from app.tenancy.agent.statuses import Patience, Report, StatusWriter, in_terms_of_the_object, unreached
from app.tenancy.agent.targets import Target, manifest_of, names_of
from app.tenancy.agent.views import ObjectView, project_object
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as pb
from app.tenancy.proto.universe.resource.v1.universe_resource_pb2_grpc import UniverseResourceServiceStub
from app.workloads.model import AGENT_OWNER, UVS_PODS

log = structlog.get_logger(__name__)


class ResourceSync:
    """One kind. `pods` are the tenant's Pods in the infra cluster; `is_mirror` says which objects are ours."""

    def __init__(
        self,
        client: KubeClient,
        target: Target,
        store: Store[ObjectView],
        pods: Remote[pb.PodSummary],
        *,
        connection: Connection,
        options: AgentOptions,
        is_mirror: Callable[[ObjectView], bool],
        events: Events | None = None,
    ) -> None:
        self._client = client
        self._target = target
        self._store = store
        self._pods = pods
        self._connection = connection
        self._options = options
        self._is_mirror = is_mirror
        self._writer = StatusWriter(client, target.resource, namespace=options.namespace, events=events)
        self._patience = Patience(options.patience)
        self._answers = Answers(base=options.refusal_pause, cap=options.resync)
        self._asking: set[str] = set()
        self._present: set[str] = set()
        self._touched: set[str] = set()
        self._controller: Controller[str] = Controller(
            f"agent-{target.resource.plural}",
            self._reconcile,
            stores=(store,),
            workers=options.workers,
            resync=None,  # the sweep enqueues
            keys=self._names,
            queue=WorkQueue(base=options.backoff_base, cap=options.backoff_cap),
        )
        store.subscribe(lambda _event, key, *_: self._controller.enqueue(key[1]))
        connection.subscribe("resources", self._enqueue_all)
        if target.resource is UVS_PODS:
            pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._controller.run())
            tasks.create_task(self._sweep())

    def _names(self) -> Iterable[str]:
        here = {name for _, name in self._store.keys()}  # noqa: SIM118  a Store is no mapping
        return sorted(here | self._present)

    def _enqueue_all(self) -> None:
        for name in self._names():
            self._controller.enqueue(name)

    def _pod_changed(self, name: str) -> None:
        if name not in self._pods.items:
            # It is gone there: if it is still wanted it has to be applied again.
            self._answers.drop(name)
            self._asking.discard(name)
        self._controller.enqueue(name)

    async def _sweep(self) -> None:
        """At each connection and then every `resync` seconds: learn what the gateway has, and look at everything."""
        backoff = Backoff(base=self._options.backoff_base, cap=self._options.resync)
        await self._store.wait_synced()
        while True:
            await self._pods.next_round(0)
            rounds = self._pods.rounds
            try:
                await self._look()
            except BerthError as error:
                log.info("objects at the gateway not listed", kind=self._target.kind, error=str(error))
                pause = backoff.next()
            else:
                backoff.reset()
                pause = self._options.resync
            try:
                async with asyncio.timeout(pause):
                    await self._pods.next_round(rounds)
            except TimeoutError:
                continue

    async def _look(self) -> None:
        self._touched.clear()
        request = pb.ListRequest(type=self._target.type, owner=AGENT_OWNER)
        answer = await self._connection.call(UniverseResourceServiceStub, "List", request)
        names = await asyncio.to_thread(names_of, [obj.obj_spec for obj in answer.objects])
        # What was applied while the answer was on its way is there as well.
        self._present = names | (self._present & self._touched)
        self._answers.clear()
        self._enqueue_all()

    async def _reconcile(self, name: str) -> Result:
        view = self._store.get(self._options.namespace, name)
        if view is not None and self._is_mirror(view):
            view = None
        if not self._pods.synced:
            problem, refusal = self._connection.problem("resources"), self._connection.refusal("resources")
            return await unreached(view, problem=problem, refusal=refusal, patience=self._patience, writer=self._writer)
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

    async def _converge(self, view: ObjectView) -> None:
        answer = self._answers.get(view.name, view.version)
        refusal = answer.refusal if answer is not None else None
        if answer is None:
            try:
                manifest = self._manifest(view)
            except ValueError as error:
                await self._writer.report(view, Report("error", "InvalidArgument", str(error)))
                return
            self._asking.add(view.name)
            try:
                await self._apply(view.name, manifest)
            except GatewayRefused as error:
                refusal = error
            # What stood there may have gone while the answer was on its way: then the answer is about the past.
            if view.name in self._asking:
                self._answers.put(view.name, view.version, refusal)
        if refusal is not None:
            raise refusal
        await self._writer.report(view, Report("success", "Applied", extra=self._summary(view.name)))

    def _manifest(self, view: ObjectView) -> bytes:
        """What is to be sent. Raises ValueError where that cannot be, whatever the gateway would say."""
        pod = self._pods.items.get(view.name) if self._target.resource is UVS_PODS else None
        if pod is not None and pod.origin == pb.ORIGIN_RULE:
            raise ValueError(f"metadata.name: the rule {pod.rule!r} has created a Pod of this name")
        return manifest_of(view)

    async def _apply(self, name: str, manifest: bytes) -> None:
        request = pb.UpdateRequest(type=self._target.type, obj=pb.ResourceObject(obj_spec=manifest), owner=AGENT_OWNER)
        await self._connection.call(UniverseResourceServiceStub, "Update", request)
        self._present.add(name)
        self._touched.add(name)
        log.info("object sent", kind=self._target.kind, name=name)

    def _summary(self, name: str) -> dict[str, Any]:
        """Phase and node, for Pods that are there."""
        pod = self._pods.items.get(name) if self._target.resource is UVS_PODS else None
        if pod is None or pod.origin != pb.ORIGIN_RESOURCE:
            return {}
        return {key: value for key, value in (("phase", pod.phase), ("nodeName", pod.node_name)) if value}

    async def _remove(self, name: str) -> None:
        self._patience.settle(name)
        self._answers.drop(name)
        if name not in self._present or await self._exists(name):
            return
        request = pb.DeleteRequest(type=self._target.type, id=pb.ResourceId(name=name))
        try:
            await self._connection.call(UniverseResourceServiceStub, "Delete", request)
        except GatewayRefused as error:
            if not error.not_found:
                raise
        self._present.discard(name)
        log.info("object removed", kind=self._target.kind, name=name)

    async def _exists(self, name: str) -> bool:
        """Ask the API server itself: a cache may lag behind another agent that has just sent a new object."""
        try:
            found = await self._client.get(self._target.resource, name, namespace=self._options.namespace)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        view = project_object(found)
        return view is not None and not self._is_mirror(view)
