"""The services of the Workload API that a gateway has, and for whom each is."""

from __future__ import annotations

import grpc.aio
from google.protobuf import descriptor_pool
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from app.kube.client import KubeClient
from app.kube.rate import Rate
from app.kube.turns import Turns
from app.tenancy.gateway.identity import Audience
from app.tenancy.gateway.log_dedup import SparingLog
from app.tenancy.gateway.metrics import GatewayMetrics
from app.tenancy.gateway.options import GatewayOptions
from app.tenancy.gateway.reading import Readers
from app.tenancy.gateway.resource_service import UniverseResourceService
from app.tenancy.gateway.rules import AdminWorkloadRuleService, WorkloadRuleService
from app.tenancy.gateway.sources import BY_NAMESPACE, Sources
from app.tenancy.gateway.storing import Storing
from app.tenancy.gateway.streamids import StreamIds
from app.tenancy.gateway.workloads import WorkloadService
from app.tenancy.gateway.writing import Writing
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as admin_pb
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2_grpc as admin_grpc
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2_grpc as resource_grpc
from app.tenancy.proto.universe.workload.v1 import workload_pb2 as workload_pb
from app.tenancy.proto.universe.workload.v1 import workload_pb2_grpc as workload_grpc
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as rule_pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2_grpc as rule_grpc

AUDIENCES: dict[str, Audience] = {
    workload_pb.DESCRIPTOR.services_by_name["WorkloadService"].full_name: "tenant",
    rule_pb.DESCRIPTOR.services_by_name["WorkloadRuleService"].full_name: "tenant",
    resource_pb.DESCRIPTOR.services_by_name["UniverseResourceService"].full_name: "tenant",
    admin_pb.DESCRIPTOR.services_by_name["AdminWorkloadRuleService"].full_name: "admin",
    health.SERVICE_NAME: "anyone",
    reflection.SERVICE_NAME: "anyone",
}


def methods() -> dict[str, tuple[str, ...]]:
    """The methods of each service."""
    pool = descriptor_pool.Default()
    return {name: tuple(method.name for method in pool.FindServiceByName(name).methods) for name in AUDIENCES}


def add_services(
    server: grpc.aio.Server,
    client: KubeClient,
    sources: Sources,
    *,
    storing: Storing,
    readers: Readers,
    options: GatewayOptions,
    observer: GatewayMetrics,
    lines: SparingLog,
) -> None:
    """Those of the Workload API; health and reflection are the server's."""
    limits, placement = options.limits, options.placement
    turns = Turns(total=limits.writes, each=limits.writes_per_tenant)
    writing = Writing(
        client=client,
        store=sources.workloads,
        rules=sources.rules,
        ledger=sources.ledger,
        turns=turns,
        storing=storing,
        events=Rate(per_second=limits.events_per_second, burst=limits.events_burst),
        readers=readers,
        options=options,
        observer=observer,
        ids=StreamIds(),
        lines=lines,
    )
    tenant_rules = WorkloadRuleService(
        client,
        sources.rules,
        turns,
        storing,
        readers,
        workloads=lambda namespace: sources.workloads.count(BY_NAMESPACE, namespace),
        limits=limits,
        placement=placement,
    )
    admin_rules = AdminWorkloadRuleService(client, turns, storing, readers, limits=limits)
    resources = UniverseResourceService(
        client, sources.companions, sources.pods, turns, storing, readers, limits=limits, placement=placement
    )
    workload_grpc.add_WorkloadServiceServicer_to_server(WorkloadService(writing), server)
    rule_grpc.add_WorkloadRuleServiceServicer_to_server(tenant_rules, server)
    admin_grpc.add_AdminWorkloadRuleServiceServicer_to_server(admin_rules, server)
    resource_grpc.add_UniverseResourceServiceServicer_to_server(resources, server)
