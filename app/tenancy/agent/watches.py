"""The two streams that come from the gateway: the tenant's rules, and its Pods in the infra cluster."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import msgspec

from app.tenancy.agent.connection import Link
from app.tenancy.agent.remote import Remote
from app.tenancy.messages import canonical
from app.tenancy.proto import resource_grpc, resource_pb, rule_grpc, rule_pb
from app.wire import decode_json

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
    def put(self, item: T) -> None:
        """Keep the item under the name that `deleted` will call it."""

    async def session(self, link: Link) -> None:
        call = self.call(link)
        self.remote.begin()
        try:
            async for answer in call:
                match answer.WhichOneof("event"):
                    case self.event:
                        self.put(getattr(answer, self.event))
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
        return rule_grpc.WorkloadRuleServiceStub(link.channel).Watch(
            rule_pb.WatchWorkloadRulesRequest(), metadata=link.metadata
        )

    def put(self, item: rule_pb.WorkloadRule) -> None:
        self.remote.put(item.id, item)


class PodWatch(_Watch[resource_pb.PodSummary]):
    """The companions and Pods of the tenant at the gateway, by name."""

    event = "pod"

    def call(self, link: Link) -> Any:
        return resource_grpc.UniverseResourceServiceStub(link.channel).Watch(
            resource_pb.WatchRequest(), metadata=link.metadata
        )

    def put(self, item: resource_pb.PodSummary) -> None:
        # In canonical form, once: a mirror is compared with it each time that it is looked at.
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            if item.manifest:
                item.manifest = canonical(decode_json(item.manifest))
        self.remote.put(item.name, item)
