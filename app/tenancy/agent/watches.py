"""The two streams that come from the gateway: the tenant's rules, and its Pods in the infra cluster."""

from __future__ import annotations

from app.tenancy.agent.connection import Link
from app.tenancy.agent.remote import Remote
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.resource.v1.universe_resource_pb2_grpc import UniverseResourceServiceStub
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as rule_pb
from app.tenancy.proto.universe.workload.v1.workload_rule_pb2_grpc import WorkloadRuleServiceStub


class RuleWatch:
    """Keeps `remote` equal to the rules at the gateway, by id, while `session` runs."""

    def __init__(self) -> None:
        self.remote: Remote[rule_pb.WorkloadRule] = Remote()

    async def session(self, link: Link) -> None:
        call = WorkloadRuleServiceStub(link.channel).Watch(rule_pb.WatchWorkloadRulesRequest(), metadata=link.metadata)
        self.remote.begin()
        try:
            async for answer in call:
                match answer.WhichOneof("event"):
                    case "rule":
                        self.remote.put(answer.rule.id, answer.rule)
                    case "deleted":
                        self.remote.drop(answer.deleted)
                    case "synced":
                        self.remote.complete()
                        link.up()
        finally:
            self.remote.lose()
            call.cancel()


class PodWatch:
    """Keeps `remote` equal to the companions and Pods of the tenant at the gateway, by name, while `session` runs."""

    def __init__(self) -> None:
        self.remote: Remote[resource_pb.PodSummary] = Remote()

    async def session(self, link: Link) -> None:
        call = UniverseResourceServiceStub(link.channel).Watch(resource_pb.WatchRequest(), metadata=link.metadata)
        self.remote.begin()
        try:
            async for answer in call:
                match answer.WhichOneof("event"):
                    case "pod":
                        self.remote.put(answer.pod.name, answer.pod)
                    case "deleted":
                        self.remote.drop(answer.deleted)
                    case "synced":
                        self.remote.complete()
                        link.up()
        finally:
            self.remote.lose()
            call.cancel()
