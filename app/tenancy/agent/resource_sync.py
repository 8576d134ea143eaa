"""Keeps the tenant's own objects in the infra cluster: what the UVS objects of one kind ask for, and nothing else.

Applies each, shows the answer in its status, and removes what an agent made for a UVS object that is no more. Mirrors
are no requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from app.kube.store import Store
from app.tenancy.agent.faults import GatewayRefused
from app.tenancy.agent.remote import Remote
from app.tenancy.agent.statuses import Report
from app.tenancy.agent.syncing import Context, Requests
from app.tenancy.agent.targets import Target, manifest_of, names_of
from app.tenancy.agent.views import ObjectView
from app.tenancy.proto import resource_grpc, resource_pb
from app.workloads.model import AGENT_OWNER, UVS_PODS

log = structlog.get_logger(__name__)


class ResourceSync(Requests[resource_pb.PodSummary]):
    """One kind. `pods` are the tenant's Pods in the infra cluster; `is_mirror` says which objects are ours.

    Only of Pods the gateway tells all changes; of every kind it can list the names, which the sweep does.
    """

    stream = "resources"
    stub = resource_grpc.UniverseResourceServiceStub

    def __init__(
        self,
        context: Context,
        target: Target,
        store: Store[ObjectView],
        pods: Remote[resource_pb.PodSummary],
        *,
        is_mirror: Callable[[ObjectView], bool],
    ) -> None:
        super().__init__(target.resource.plural, context, target.resource, store, pods)
        self._target = target
        self._is_mirror = is_mirror
        self._asking: set[str] = set()
        self._present: set[str] = set()
        self._touched: set[str] = set()
        if target.resource is UVS_PODS:
            pods.subscribe(self._pod_changed)

    def _asks(self, view: ObjectView) -> bool:
        return not self._is_mirror(view)

    def _there(self) -> Iterable[str]:
        return self._present

    def _owns(self, name: str) -> bool:
        return name in self._present

    def _deletion(self, name: str) -> resource_pb.DeleteRequest:
        return resource_pb.DeleteRequest(type=self._target.type, id=resource_pb.ResourceId(name=name))

    def _removed(self, name: str) -> None:
        self._present.discard(name)

    def _pod_changed(self, name: str) -> None:
        if name not in self._remote.items:
            # It is gone there: if it is still wanted it has to be applied again.
            self._answers.drop(name)
            self._asking.discard(name)
        self._controller.enqueue(name)

    async def _learn(self) -> None:
        self._touched.clear()
        answer = await self._call("List", resource_pb.ListRequest(type=self._target.type, owner=AGENT_OWNER))
        names = await asyncio.to_thread(names_of, [obj.obj_spec for obj in answer.objects])
        # What was applied while the answer was on its way is there as well.
        self._present = names | (self._present & self._touched)
        await super()._learn()

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
        pod = self._pod(view.name)
        if pod is not None and pod.origin == resource_pb.ORIGIN_RULE:
            raise ValueError(f"metadata.name: the rule {pod.rule!r} has created a Pod of this name")
        return manifest_of(view)

    async def _apply(self, name: str, manifest: bytes) -> None:
        obj = resource_pb.ResourceObject(obj_spec=manifest)
        await self._call("Update", resource_pb.UpdateRequest(type=self._target.type, obj=obj, owner=AGENT_OWNER))
        self._present.add(name)
        self._touched.add(name)
        log.info("object sent", kind=self._target.kind, name=name)

    def _summary(self, name: str) -> dict[str, Any]:
        """Phase and node, for Pods that are there."""
        pod = self._pod(name)
        return pod_summary(pod) if pod is not None and pod.origin == resource_pb.ORIGIN_RESOURCE else {}

    def _pod(self, name: str) -> resource_pb.PodSummary | None:
        return self._remote.items.get(name) if self._target.resource is UVS_PODS else None


def pod_summary(pod: resource_pb.PodSummary) -> dict[str, str]:
    """What the status of a UVSPod says of its Pod."""
    return {key: value for key, value in (("phase", pod.phase), ("nodeName", pod.node_name)) if value}
