"""Short ways to say what the services are asked."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import grpc
import grpc.aio

from app.tenancy.messages import update_of_spec
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as admin_pb
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2_grpc as admin_grpc
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2_grpc as resource_grpc
from app.tenancy.proto.universe.workload.v1 import workload_pb2, workload_pb2_grpc, workload_rule_pb2
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2_grpc as rule_grpc
from app.workloads.model import workload_name
from tests.support.waiting import PATIENCE

JSON = dict[str, Any]
POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "nginx", "image": "nginx:1.14.2"}]}}


def rules(channel: grpc.aio.Channel) -> Any:
    return rule_grpc.WorkloadRuleServiceStub(channel)


def admin_rules(channel: grpc.aio.Channel) -> Any:
    return admin_grpc.AdminWorkloadRuleServiceStub(channel)


def resources(channel: grpc.aio.Channel) -> Any:
    return resource_grpc.UniverseResourceServiceStub(channel)


def data(template: Any = None, *, namespace: str = "default") -> workload_rule_pb2.WorkloadRuleData:
    """A good rule: all workloads of a namespace."""
    return workload_rule_pb2.WorkloadRuleData(
        orchestrator_type=1,
        resource_type="v1/Pod",
        workload_terms=[
            workload_rule_pb2.WorkloadTerm(
                match_expressions=[
                    workload_rule_pb2.MatchExpression(key="metadata.resourceNamespace", operation=1, values=[namespace])
                ]
            )
        ],
        rule_template=template if isinstance(template, bytes) else json.dumps(template or POD).encode(),
    )


def rule(name: str = "rule1", **fields: Any) -> workload_rule_pb2.WorkloadRule:
    return workload_rule_pb2.WorkloadRule(id=name, **{"data": data(), **fields})


def admin_rule(name: str = "rule1", *, tenants: tuple[str, ...] = ("tenant1",), **fields: Any) -> Any:
    return admin_pb.AdminWorkloadRule(id=name, tenant_match=tenants, **{"data": data(), **fields})


def manifest(kind: str, name: str, **parts: Any) -> JSON:
    version = "apps/v1" if kind == "DaemonSet" else "v1"
    metadata = {"name": name, **parts.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def pod(name: str, **metadata: Any) -> JSON:
    return {**POD, "metadata": {"name": name, **metadata}}


def type_of(kind: str) -> Any:
    return resource_pb.ResourceType(api_version="apps/v1" if kind == "DaemonSet" else "v1", kind=kind)


async def put(
    channel: grpc.aio.Channel, obj: JSON | bytes, *, kind: str = "", owner: str = "", method: str = "Update"
) -> Any:
    """Create or Update of the resource service."""
    name = kind or (obj["kind"] if isinstance(obj, dict) else "Pod")
    text = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
    message = getattr(resource_pb, f"{method}Request")(
        type=type_of(name), obj=resource_pb.ResourceObject(obj_spec=text), owner=owner
    )
    return await getattr(resources(channel), method)(message, timeout=PATIENCE)


def uid(name: str) -> str:
    """The id of the workload that a test calls so."""
    return str(uuid5(NAMESPACE_OID, name))


def workload(name: str) -> str:
    """The name of its object."""
    return workload_name(uid(name))


def spec(name: str, **state: Any) -> JSON:
    return {
        "metadata": {
            "id": uid(name),
            "orchestrator": "kubernetes",
            "resourceType": "v1/Pod",
            "resourceName": f"pod-{name}",
            "resourceNamespace": "default",
        },
        "state": {"nodeName": "host-a", "ready": True, "extra": {"labels": {}, "annotations": {}}, **state},
    }


class Sender:
    """A workload stream under the test's control."""

    def __init__(self, channel: grpc.aio.Channel, **call: Any) -> None:
        self.call = workload_pb2_grpc.WorkloadServiceStub(channel).WorkloadStream(**call)

    async def update(self, name: str, **state: Any) -> None:
        await self.raw(update_of_spec(spec(name, **state)).update)

    async def raw(self, message: workload_pb2.Workload) -> None:
        await self.call.write(workload_pb2.WorkloadStreamRequest(update=message))

    async def delete(self, name: str) -> None:
        await self.raw_delete(uid(name))

    async def raw_delete(self, workload_id: str) -> None:
        event = workload_pb2.WorkloadDelete(id=workload_id)
        await self.call.write(workload_pb2.WorkloadStreamRequest(delete=event))

    async def synced(self) -> None:
        await self.call.write(workload_pb2.WorkloadStreamRequest(synced=workload_pb2.WorkloadSynced()))

    async def close(self) -> None:
        """No more events; returns when everything has been written."""
        await self.call.done_writing()
        async with asyncio.timeout(PATIENCE):
            await self.call

    async def failure(self) -> grpc.aio.AioRpcError:
        """How the stream ends."""
        async with asyncio.timeout(PATIENCE):
            try:
                await self.call
            except grpc.aio.AioRpcError as error:
                return error
        raise AssertionError("the stream ended well")


async def fails(call: Any) -> grpc.aio.AioRpcError:
    """The error that a call ends with."""
    async with asyncio.timeout(PATIENCE):
        try:
            if isinstance(call, grpc.aio.UnaryStreamCall):
                while await call.read() != grpc.aio.EOF:
                    pass
            else:
                await call
        except grpc.aio.AioRpcError as error:
            return error
    raise AssertionError("the call ended well")


BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 9)) for n in range(ord("b"), ord("j"))
)
