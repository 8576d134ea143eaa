"""Answers of the gateway that are about the past by the time that they arrive."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from app.kube.kit import Kit
from app.kube.store import Store
from app.tenancy.agent.agent import ResourceSync
from app.tenancy.agent.outages import GatewayRefused
from app.tenancy.agent.remote import Pods
from app.tenancy.agent.settings import AgentOptions
from app.tenancy.agent.syncing import Local
from app.tenancy.agent.views import ObjectView, project_object
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as pb
from app.workloads.model import UVS_PODS
from tests.support.waiting import eventually


class SlowGateway:
    """Its first answer to Update comes when it is told to; it is a refusal, later ones are not."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = asyncio.Event()

    def problem(self, _stream: str) -> str:
        return ""

    def refusal(self, _stream: str) -> str:
        return ""

    def subscribe(self, _stream: str, _listener: Any) -> None:
        """It refuses no stream."""

    async def call(self, _stub: Any, method: str, _request: Any) -> Any:
        if method == "List":
            return pb.ListResponse()
        self.asked += 1
        if self.asked == 1:
            await self.answer.wait()
            raise GatewayRefused("Pod 'p' is there", code=grpc.StatusCode.FAILED_PRECONDITION)
        return pb.UpdateResponse()


class NoCluster:
    """Takes every status."""

    async def apply(self, *_: Any, **__: Any) -> None:
        return


async def test_a_refusal_because_of_a_pod_that_has_gone_meanwhile(agent_options: AgentOptions) -> None:
    """A companion stood in the way; it came and went while the answer was on its way: the object is sent again."""
    store: Store[ObjectView] = Store(project_object)
    gateway = SlowGateway()
    remote = Pods(gateway)  # type: ignore[arg-type]  # the part of a connection that is used
    kit = Kit(NoCluster(), resync=None)  # type: ignore[arg-type]  # the part of a client that is used
    ResourceSync(kit, Local(kit.client, UVS_PODS, store, agent_options), remote, is_mirror=lambda _: False)
    store.mark_synced()
    remote.begin()
    remote.complete()

    running = asyncio.create_task(kit.run())
    try:
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
        metadata = {"name": "p", "namespace": "universe", "uid": "1", "generation": 1}
        await asyncio.sleep(0.05)
        store.upsert({"metadata": metadata, "spec": {"object": manifest}})
        await eventually(lambda: gateway.asked == 1)
        remote.put("p", pb.PodSummary(name="p", origin=pb.ORIGIN_RULE, rule="r"))
        remote.drop("p")
        gateway.answer.set()
        await eventually(lambda: gateway.asked == 2)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
