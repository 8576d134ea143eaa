"""The services of the Workload API that a gateway has, and for whom each is."""

from __future__ import annotations

import grpc.aio
from google.protobuf import descriptor_pool
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.identity import Audience
from app.tenancy.gateway.resource_service import UniverseResourceService
from app.tenancy.gateway.rules import AdminWorkloadRuleService, WorkloadRuleService
from app.tenancy.gateway.workload_stream import WorkloadService
from app.tenancy.proto import (
    admin_grpc,
    admin_pb,
    resource_grpc,
    resource_pb,
    rule_grpc,
    rule_pb,
    workload_grpc,
    workload_pb,
)

AUDIENCES: dict[str, Audience] = {
    workload_pb.DESCRIPTOR.services_by_name["WorkloadService"].full_name: "tenant",
    rule_pb.DESCRIPTOR.services_by_name["WorkloadRuleService"].full_name: "tenant",
    resource_pb.DESCRIPTOR.services_by_name["UniverseResourceService"].full_name: "tenant",
    admin_pb.DESCRIPTOR.services_by_name["AdminWorkloadRuleService"].full_name: "admin",
    health.SERVICE_NAME: "anyone",
    reflection.SERVICE_NAME: "anyone",
}


def methods() -> dict[str, tuple[str, ...]]:
    pool = descriptor_pool.Default()
    return {name: tuple(method.name for method in pool.FindServiceByName(name).methods) for name in AUDIENCES}


def add_services(server: grpc.aio.Server, backend: Backend) -> None:
    """Those of the Workload API; health and reflection are the server's."""
    workload_grpc.add_WorkloadServiceServicer_to_server(WorkloadService(backend), server)
    rule_grpc.add_WorkloadRuleServiceServicer_to_server(WorkloadRuleService(backend), server)
    admin_grpc.add_AdminWorkloadRuleServiceServicer_to_server(AdminWorkloadRuleService(backend), server)
    resource_grpc.add_UniverseResourceServiceServicer_to_server(UniverseResourceService(backend), server)
