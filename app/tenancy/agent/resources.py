"""Keeps the tenant's own objects in the infra cluster: what the UVS objects of one kind ask for, and nothing else.

Applies each, shows the answer in its status, and removes what an agent made for a UVS object that is no more. Mirrors
are no requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from app.tenancy.agent.answers import GatewayRefused
from app.tenancy.agent.local import Local
from app.tenancy.agent.remote import Pod, Pods, is_companion, names_of, pod_summary
from app.tenancy.agent.requests import Requests
from app.tenancy.agent.views import ObjectView
from app.tenancy.proto import resource_pb
from app.workloads.model import AGENT_OWNER, UVS_CONFIG_MAPS, UVS_DAEMON_SETS, UVS_PODS, UVS_SECRETS

log = structlog.get_logger(__name__)


TYPES = {
    UVS_PODS: resource_pb.ResourceType(api_version="v1", kind="Pod"),
    UVS_DAEMON_SETS: resource_pb.ResourceType(api_version="apps/v1", kind="DaemonSet"),
    UVS_SECRETS: resource_pb.ResourceType(api_version="v1", kind="Secret"),
    UVS_CONFIG_MAPS: resource_pb.ResourceType(api_version="v1", kind="ConfigMap"),
}
"""What the objects of each kind ask for."""


class ResourceSync(Requests[Pod]):
    """One kind. `pods` are the tenant's Pods in the infra cluster; `is_mirror` says which objects are ours.

    The gateway sends the changes of Pods alone. The sweep lists the names of every kind.
    """

    def __init__(self, local: Local, pods: Pods, *, is_mirror: Callable[[ObjectView], bool]) -> None:
        super().__init__(local.resource.plural, local, pods)
        self._type, self._is_mirror = TYPES[local.resource], is_mirror
        self._asking: set[str] = set()
        self._present: set[str] = set()
        self._touched: set[str] = set()

    def _asks(self, view: ObjectView) -> bool:
        return not self._is_mirror(view)

    def _there(self) -> Iterable[str]:
        return self._present

    def _deletion(self, name: str) -> resource_pb.DeleteRequest | None:
        if name not in self._present:
            return None
        return resource_pb.DeleteRequest(type=self._type, id=resource_pb.ResourceId(name=name))

    def _removed(self, name: str) -> None:
        self._present.discard(name)

    def _remote_changed(self, name: str) -> None:
        if self._local.resource is not UVS_PODS:
            return
        if name not in self._remote.items:
            # It is gone there: if it is still wanted it has to be applied again.
            self._answers.drop(name)
            self._asking.discard(name)
        super()._remote_changed(name)

    async def _learn(self) -> None:
        self._touched.clear()
        answer = await self._remote.call("List", resource_pb.ListRequest(type=self._type, owner=AGENT_OWNER))
        names = await asyncio.to_thread(names_of, [obj.obj_spec for obj in answer.objects])
        # What was applied while the answer was on its way is there as well.
        self._present = names | (self._present & self._touched)
        await super()._learn()

    async def _converge(self, view: ObjectView) -> None:
        name, answer = view.name, self._answers.get(view.name, view.version)
        refusal = answer.refusal if answer is not None else None
        if answer is None:
            try:
                manifest = self._manifest(view)
            except ValueError as error:
                await self._local.report(view, "error", "InvalidArgument", str(error))
                return
            self._asking.add(name)
            try:
                await self._apply(name, manifest)
            except GatewayRefused as error:
                refusal = error
            # What stood there may have gone while the answer was on its way: then the answer is about the past.
            if name in self._asking:
                self._answers.put(name, view.version, refusal)
        if refusal is not None:
            raise refusal
        pod = self._pod(name)
        shown = pod_summary(pod) if pod is not None and pod.origin == resource_pb.ORIGIN_RESOURCE else {}
        await self._local.report(view, "success", "Applied", extra=shown)

    def _manifest(self, view: ObjectView) -> bytes:
        """What is to be sent. Raises ValueError where that cannot be, whatever the gateway would say."""
        pod = self._pod(view.name)
        if pod is not None and is_companion(pod):
            raise ValueError(f"metadata.name: the rule {pod.rule!r} has created a Pod of this name")
        return view.manifest()

    async def _apply(self, name: str, manifest: bytes) -> None:
        obj = resource_pb.ResourceObject(obj_spec=manifest)
        await self._remote.call("Update", resource_pb.UpdateRequest(type=self._type, obj=obj, owner=AGENT_OWNER))
        self._present.add(name)
        self._touched.add(name)
        log.info("object sent", kind=self._type.kind, name=name)

    def _pod(self, name: str) -> Pod | None:
        return self._remote.items.get(name) if self._local.resource is UVS_PODS else None
