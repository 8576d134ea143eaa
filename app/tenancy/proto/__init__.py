"""The messages (`_pb`) and services (`_grpc`) of the Workload API, as `make protos` generates them."""

from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as admin_pb
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2_grpc as admin_grpc
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2_grpc as resource_grpc
from app.tenancy.proto.universe.workload.v1 import workload_pb2 as workload_pb
from app.tenancy.proto.universe.workload.v1 import workload_pb2_grpc as workload_grpc
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as rule_pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2_grpc as rule_grpc

__all__ = [
    "admin_grpc",
    "admin_pb",
    "resource_grpc",
    "resource_pb",
    "rule_grpc",
    "rule_pb",
    "workload_grpc",
    "workload_pb",
]
