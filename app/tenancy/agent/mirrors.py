"""Shows the tenant what its rules have created: a UVSPod for each companion, marked as ours.

A mirror that is deleted or edited is restored, one whose companion is gone is removed, and a UVSPod without the mark
is never touched. Nothing is removed before the gateway has told of every companion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, Result
from app.kube.queue import WorkQueue
from app.kube.store import EventType, Key, Store
from app.tenancy.agent.options import AgentOptions
from app.tenancy.agent.remote import Remote
from app.tenancy.agent.statuses import Report, StatusWriter
from app.tenancy.agent.views import ObjectView
from app.tenancy.messages import canonical
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as pb
from app.wire import JSON, decode_json
from app.workloads.model import MIRROR, RULE_NAME, UVS_PODS

log = structlog.get_logger(__name__)


class MirrorSync:
    """`store` holds the UVSPods, `pods` the tenant's Pods in the infra cluster."""

    def __init__(
        self,
        client: KubeClient,
        store: Store[ObjectView],
        pods: Remote[pb.PodSummary],
        *,
        options: AgentOptions,
    ) -> None:
        self._client = client
        self._store = store
        self._pods = pods
        self._namespace = options.namespace
        self._writer = StatusWriter(client, UVS_PODS, namespace=options.namespace)
        self._marked: set[str] = set()
        self._shadowed: dict[str, str] = {}
        self._controller: Controller[str] = Controller(
            "agent-mirrors",
            self._reconcile,
            stores=(store,),
            keys=self._names,
            workers=options.workers,
            resync=options.resync,
            queue=WorkQueue(base=options.backoff_base, cap=options.backoff_cap),
        )
        store.subscribe(self._changed)
        pods.subscribe(self._controller.enqueue)

    def is_mirror(self, view: ObjectView) -> bool:
        """Whether the agent made the Pod: it has the agent's mark, or had it until the mark was removed."""
        return view.mirror or view.uid in self._marked

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._controller.run())
            tasks.create_task(self._follow_rounds())

    async def _follow_rounds(self) -> None:
        rounds = self._pods.rounds
        while True:
            await self._pods.next_round(rounds)
            rounds = self._pods.rounds
            for name in self._names():
                self._controller.enqueue(name)

    def _names(self) -> Iterable[str]:
        here = {name for _, name in self._store.keys()}  # noqa: SIM118  a Store is no mapping
        return sorted(here | self._pods.items.keys())

    def _changed(self, _event: EventType, key: Key, old: ObjectView | None, new: ObjectView | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._marked.discard(old.uid)
        if new is not None and new.mirror:
            self._marked.add(new.uid)
        self._controller.enqueue(key[1])

    async def _reconcile(self, name: str) -> Result:
        if not self._pods.synced:
            return Done()  # everything is looked at again once the gateway has told everything
        view, pod = self._store.get(self._namespace, name), self._pods.items.get(name)
        companion = pod if pod is not None and pod.origin == pb.ORIGIN_RULE else None
        if companion is None:
            self._shadowed.pop(name, None)
            if view is not None and self.is_mirror(view):
                await self._remove(view)
        elif view is None:
            await self._create(companion)
        elif not self.is_mirror(view):
            self._note_shadowed(view)
        elif not _as_made(view, companion):
            await self._restore(view, companion)
        else:
            await self._writer.report(view, Report("success", "Mirrored", extra=_summary(companion)))
        return Done()

    async def _create(self, companion: pb.PodSummary) -> None:
        body: JSON = {
            "apiVersion": UVS_PODS.api_version,
            "kind": UVS_PODS.kind,
            "metadata": {
                "name": companion.name,
                "namespace": self._namespace,
                "labels": {MIRROR: "true"},
                "annotations": {RULE_NAME: companion.rule},
            },
            "spec": {"object": decode_json(companion.manifest)},
        }
        await self._client.create(UVS_PODS, body, namespace=self._namespace)
        log.info("mirror created", name=companion.name, rule=companion.rule)

    async def _restore(self, view: ObjectView, companion: pb.PodSummary) -> None:
        """Make it what it was made as; labels and annotations of others stay."""
        found = await self._client.get(UVS_PODS, view.name, namespace=self._namespace)
        metadata = found["metadata"]
        if metadata.get("uid") != view.uid:
            raise Transient(f"{view.name}: replaced meanwhile")
        metadata["labels"] = {**(metadata.get("labels") or {}), MIRROR: "true"}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), RULE_NAME: companion.rule}
        found["spec"] = {"object": decode_json(companion.manifest)}
        await self._client.replace(UVS_PODS, view.name, found, namespace=self._namespace)
        log.info("mirror updated", name=view.name, rule=companion.rule)

    async def _remove(self, view: ObjectView) -> None:
        try:
            await self._client.delete(UVS_PODS, view.name, namespace=self._namespace, uid=view.uid)
        except ApiError as error:
            if not error.not_found:
                raise
        log.info("mirror removed", name=view.name, rule=view.rule)

    def _note_shadowed(self, view: ObjectView) -> None:
        if self._shadowed.get(view.name) != view.uid:
            self._shadowed[view.name] = view.uid
            log.warning("no mirror: a UVSPod of that name is not ours", name=view.name)


def _as_made(view: ObjectView, companion: pb.PodSummary) -> bool:
    wanted = canonical({"object": decode_json(companion.manifest)})
    return view.mirror and view.rule == companion.rule and view.spec == wanted


def _summary(companion: pb.PodSummary) -> dict[str, str]:
    pairs = (("phase", companion.phase), ("nodeName", companion.node_name))
    return {key: value for key, value in pairs if value}
