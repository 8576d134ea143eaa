"""Calls one method of the gateway with JSON in and JSON out, as grpcurl does with the same .proto files.

The protos' JSON form takes field names as they are written (`tenant_match`) and in lower camel case, enums by number
or name, and bytes in base64.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory

from app.errors import BerthError, UsageError
from app.tenancy.model import GATEWAY_NAME
from app.text import rpc_fault
from app.wire import JSON

_PROTOS = (
    "app.tenancy.proto.universe.workload.v1.workload_rule_pb2",
    "app.tenancy.proto.universe.resource.v1.universe_resource_pb2",
    "app.tenancy.proto.universe.admin.workload.v1.admin_workload_rule_pb2",
)


class CallError(BerthError):
    """The gateway refused or failed; `code` is the gRPC status (`NOT_FOUND`)."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Caller:
    """Where the gateway is (`host:port`) and the PEM files to call it with."""

    gateway: str
    ca: Path
    certificate: Path
    key: Path
    server_name: str = GATEWAY_NAME
    timeout: float = 20.0

    async def call(self, method: str, body: JSON) -> JSON:
        """Call `package.Service.Method` (or `package.Service/Method`) and return its answer.

        Raises UsageError for a body that does not fit the method's request, CallError for an answer that is no success.
        """
        service, _, name = method.replace("/", ".").rpartition(".")
        for module in _PROTOS:
            import_module(module)
        try:
            described = descriptor_pool.Default().FindServiceByName(service).FindMethodByName(name)
        except KeyError:
            raise UsageError(f"there is no method {method}") from None
        request = message_factory.GetMessageClass(described.input_type)()
        try:
            json_format.ParseDict(body, request)
        except json_format.ParseError as error:
            raise UsageError(f"{method}: {error}") from error
        answer_type = message_factory.GetMessageClass(described.output_type)
        try:
            files = (self.ca.read_bytes(), self.key.read_bytes(), self.certificate.read_bytes())
        except OSError as error:
            raise UsageError(f"{error.filename}: {error.strerror}") from error
        options = [("grpc.ssl_target_name_override", self.server_name)]
        async with grpc.aio.secure_channel(self.gateway, grpc.ssl_channel_credentials(*files), options) as channel:
            unary = channel.unary_unary(
                f"/{service}/{name}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer_type.FromString,
            )
            try:
                answer = await unary(request, timeout=self.timeout)
            except grpc.aio.AioRpcError as error:
                raise CallError(error.code().name, rpc_fault(error.details() or "")) from error
        found: JSON = json_format.MessageToDict(answer, preserving_proto_field_name=True)
        return found
