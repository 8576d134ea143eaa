"""The two streams that come from the gateway: the tenant's rules, and its Pods in the infra cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from app.tenancy.agent.connection import Link
from app.tenancy.agent.remote import Remote
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.resource.v1.universe_resource_pb2_grpc import UniverseResourceServiceStub
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as rule_pb
from app.tenancy.proto.universe.workload.v1.workload_rule_pb2_grpc import WorkloadRuleServiceStub

T = TypeVar("T")


class _Watch(ABC, Generic[T]):
    """Keeps `remote` equal to what one stream tells, while `session` runs."""

    event: str
    """The member of the answers' `event` that brings an item; `deleted` and `synced` are the others."""

    def __init__(self) -> None:
        self.remote: Remote[T] = Remote()

    @abstractmethod
    def call(self, link: Link) -> Any:
        """The stream of answers."""

    @abstractmethod
    def name(self, item: T) -> str:
        """What `deleted` will call the item."""

    async def session(self, link: Link) -> None:
        call = self.call(link)
        self.remote.begin()
        try:
            async for answer in call:
                match answer.WhichOneof("event"):
                    case self.event:
                        item: T = getattr(answer, self.event)
                        self.remote.put(self.name(item), item)
                    case "deleted":
                        self.remote.drop(answer.deleted)
                    case "synced":
                        self.remote.complete()
                        link.up()
        finally:
            self.remote.lose()
            call.cancel()


class RuleWatch(_Watch[rule_pb.WorkloadRule]):
    """The rules at the gateway, by id."""

    event = "rule"

    def call(self, link: Link) -> Any:
        return WorkloadRuleServiceStub(link.channel).Watch(rule_pb.WatchWorkloadRulesRequest(), metadata=link.metadata)

    def name(self, item: rule_pb.WorkloadRule) -> str:
        return item.id


class PodWatch(_Watch[resource_pb.PodSummary]):
    """The companions and Pods of the tenant at the gateway, by name."""

    event = "pod"

    def call(self, link: Link) -> Any:
        return UniverseResourceServiceStub(link.channel).Watch(resource_pb.WatchRequest(), metadata=link.metadata)

    def name(self, item: resource_pb.PodSummary) -> str:
        return item.name
