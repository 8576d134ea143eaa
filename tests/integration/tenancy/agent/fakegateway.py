# ruff: noqa: N802  the services name their methods
"""A gateway in memory, over real gRPC with mutual TLS, that fails on command: for tests of what the agent survives."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import yaml

from app.certs.issuing import Issued, issue_authority, issue_client, issue_serving, serving_names
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2_grpc as resource_grpc
from app.tenancy.proto.universe.workload.v1 import workload_pb2 as workload_pb
from app.tenancy.proto.universe.workload.v1 import workload_pb2_grpc as workload_grpc
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as rule_pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2_grpc as rule_grpc
from app.wire import decode_json, encode_json


class Certificates:
    """An authority and the files of a client in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.authority = issue_authority(common_name="test", now=datetime.now(UTC), days=60)
        self.write_client("tenant1.tenant.local")

    def serving(self) -> Issued:
        names = serving_names(dns=["api-gateway.local"], addresses=[])
        return issue_serving(self.authority, names=names, now=datetime.now(UTC), days=30)

    def write_client(self, name: str, *, authority: Issued | None = None) -> None:
        issued = issue_client(authority or self.authority, common_name=name, now=datetime.now(UTC), days=30)
        write_files(self.folder, self.authority.certificate_pem, issued)


def write_files(folder: Path, ca: bytes, issued: Issued) -> None:
    (folder / "ca.crt").write_bytes(ca)
    (folder / "tls.crt").write_bytes(issued.certificate_pem)
    (folder / "tls.key").write_bytes(issued.key_pem)


class FakeGateway:
    """`fail[method]` is the code (and text) that a method ends with; `reading` cleared stops reading workloads.

    `telling` cleared stops the Watch streams; `template` is what it makes of every rule's template, `headers` are
    those of a stream of workloads.
    """

    def __init__(self, certificates: Certificates) -> None:
        self.certificates = certificates
        self.workloads: dict[str, workload_pb.Workload] = {}
        self.events: list[workload_pb.WorkloadStreamRequest] = []
        self.rules: dict[str, rule_pb.WorkloadRule] = {}
        self.objects: dict[tuple[str, str], tuple[dict[str, Any], str]] = {}
        self.pods: dict[str, resource_pb.PodSummary] = {}
        self.calls: Counter[str] = Counter()
        self.callers: list[str] = []
        self.metadata: list[dict[str, str]] = []
        self.fail: dict[str, tuple[grpc.StatusCode, str]] = {}
        self.template: bytes | None = None
        self.silent = False
        self.headers: tuple[tuple[str, str], ...] = ()
        self.reading = asyncio.Event()
        self.reading.set()
        self.telling = asyncio.Event()
        self.telling.set()
        self.port = 0
        self._server: grpc.aio.Server | None = None
        self._queues: dict[str, list[asyncio.Queue[Any]]] = {"rules": [], "pods": []}
        self.was_cut = asyncio.Event()

    async def start(self) -> None:
        server = grpc.aio.server(
            options=[
                ("grpc.http2.min_ping_interval_without_data_ms", 100),
                ("grpc.http2.bdp_probe", 0),  # what is not read waits at the sender: a window would grow to megabytes
            ]
        )
        workload_grpc.add_WorkloadServiceServicer_to_server(_Workloads(self), server)
        rule_grpc.add_WorkloadRuleServiceServicer_to_server(_Rules(self), server)
        resource_grpc.add_UniverseResourceServiceServicer_to_server(_Resources(self), server)
        issued = self.certificates.serving()
        credentials = grpc.ssl_server_credentials(
            [(issued.key_pem, issued.certificate_pem)],
            root_certificates=self.certificates.authority.certificate_pem,
            require_client_auth=True,
        )
        self.port = server.add_secure_port(f"127.0.0.1:{self.port}", credentials)
        await server.start()
        self._server = server

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def cut(self) -> None:
        """End every stream with UNAVAILABLE."""
        self.was_cut.set()
        self.was_cut = asyncio.Event()

    # What tests change at the gateway's side

    def set_status(self, rule_id: str, **fields: Any) -> None:
        rule = rule_pb.WorkloadRule()
        rule.CopyFrom(self.rules[rule_id])
        rule.status.CopyFrom(rule_pb.RuleStatus(observed_generation=rule.generation, **fields))
        self.rules[rule_id] = rule
        self.tell("rules", rule)

    def put_rule(self, rule: rule_pb.WorkloadRule) -> None:
        self.rules[rule.id] = rule
        self.tell("rules", rule)

    def drop_rule(self, rule_id: str) -> None:
        self.rules.pop(rule_id, None)
        self.tell("rules", rule_id)

    def put_pod(self, name: str, *, rule: str = "", manifest: dict[str, Any] | None = None, **fields: Any) -> None:
        origin = resource_pb.ORIGIN_RULE if rule else resource_pb.ORIGIN_RESOURCE
        fields.setdefault("phase", "Running")
        pod = resource_pb.PodSummary(
            name=name, origin=origin, rule=rule, manifest=encode_json(manifest) if manifest else b"", **fields
        )
        self.pods[name] = pod
        self.tell("pods", pod)

    def drop_pod(self, name: str) -> None:
        self.pods.pop(name, None)
        self.objects.pop(("Pod", name), None)
        self.tell("pods", name)

    def owned(self, kind: str) -> set[str]:
        return {name for found, name in self.objects if found == kind}

    def tell(self, what: str, item: Any) -> None:
        for queue in self._queues[what]:
            queue.put_nowait(item)

    # For the services

    async def begin(self, method: str, context: Any) -> None:
        self.calls[method] += 1
        self.callers.append(next(iter(context.auth_context()["x509_common_name"])).decode())
        self.metadata.append(dict(context.invocation_metadata() or ()))
        if method in self.fail:
            await context.abort(*self.fail[method])

    async def read(self, requests: Any) -> None:
        seen: set[str] = set()
        async for request in requests:
            await self.reading.wait()
            self.events.append(request)
            match request.WhichOneof("event"):
                case "update":
                    workload_id = request.update.metadata.id
                    self.workloads[workload_id] = request.update
                    seen.add(workload_id)
                case "delete":
                    self.workloads.pop(request.delete.id, None)
                case "synced":
                    for gone in self.workloads.keys() - seen:
                        del self.workloads[gone]
                    seen.clear()

    async def watch(self, what: str, method: str, context: Any) -> AsyncIterator[Any]:
        await self.begin(method, context)
        queue: asyncio.Queue[Any] = asyncio.Queue()
        items = self.rules if what == "rules" else self.pods
        for item in list(items.values()):
            queue.put_nowait(item)
        queue.put_nowait(True)
        self._queues[what].append(queue)
        cut = asyncio.ensure_future(self.was_cut.wait())
        try:
            while True:
                await self.telling.wait()
                getting = asyncio.ensure_future(queue.get())
                await asyncio.wait({getting, cut}, return_when=asyncio.FIRST_COMPLETED)
                if cut.done():
                    getting.cancel()
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
                yield getting.result()
        finally:
            cut.cancel()
            self._queues[what].remove(queue)


class _Workloads(workload_grpc.WorkloadServiceServicer):
    def __init__(self, fake: FakeGateway) -> None:
        self.fake = fake

    async def WorkloadStream(self, request_iterator: Any, context: Any) -> Any:
        await self.fake.begin("WorkloadStream", context)
        if not self.fake.silent:
            await context.send_initial_metadata(self.fake.headers)
        reader = asyncio.ensure_future(self.fake.read(request_iterator))
        cut = asyncio.ensure_future(self.fake.was_cut.wait())
        try:
            await asyncio.wait({reader, cut}, return_when=asyncio.FIRST_COMPLETED)
            if cut.done():
                await context.abort(grpc.StatusCode.UNAVAILABLE, "cut")
            return workload_pb.WorkloadStreamResponse()
        finally:
            reader.cancel()
            cut.cancel()
            await asyncio.gather(reader, cut, return_exceptions=True)


class _Rules(rule_grpc.WorkloadRuleServiceServicer):
    def __init__(self, fake: FakeGateway) -> None:
        self.fake = fake

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async with contextlib.aclosing(self.fake.watch("rules", "WatchRules", context)) as items:
            async for item in items:
                yield _rule_event(item)

    async def Update(self, request: Any, context: Any) -> Any:
        await self.fake.begin("UpdateRule", context)
        old = self.fake.rules.get(request.rule.id)
        if old is None or (old.data, old.generation, old.owner) != (
            request.rule.data,
            request.rule.generation,
            request.rule.owner,
        ):
            rule = rule_pb.WorkloadRule()
            rule.CopyFrom(request.rule)
            if self.fake.template is not None:
                rule.data.rule_template = self.fake.template
            if old is not None:
                rule.status.CopyFrom(old.status)
            self.fake.put_rule(rule)
        return rule_pb.UpdateWorkloadRuleResponse(rule=self.fake.rules[request.rule.id])

    async def Delete(self, request: Any, context: Any) -> Any:
        await self.fake.begin("DeleteRule", context)
        if request.id not in self.fake.rules:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such rule")
        self.fake.drop_rule(request.id)
        return rule_pb.DeleteWorkloadRuleResponse()


class _Resources(resource_grpc.UniverseResourceServiceServicer):
    def __init__(self, fake: FakeGateway) -> None:
        self.fake = fake

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async with contextlib.aclosing(self.fake.watch("pods", "WatchPods", context)) as items:
            async for item in items:
                yield _pod_event(item)

    async def List(self, request: Any, context: Any) -> Any:
        await self.fake.begin("List", context)
        found = [
            resource_pb.ResourceObject(obj_spec=yaml.safe_dump(manifest).encode())
            for (kind, _), (manifest, owner) in self.fake.objects.items()
            if kind == request.type.kind and request.owner in ("", owner)
        ]
        return resource_pb.ListResponse(objects=found)

    async def Update(self, request: Any, context: Any) -> Any:
        await self.fake.begin("UpdateObject", context)
        manifest, kind = decode_json(request.obj.obj_spec), request.type.kind
        name = manifest["metadata"]["name"]
        self.fake.calls[f"UpdateObject {kind}/{name}"] += 1
        self.fake.objects[kind, name] = manifest, request.owner
        if kind == "Pod" and name not in self.fake.pods:
            self.fake.put_pod(name, phase="Pending")
        return resource_pb.UpdateResponse(obj=request.obj)

    async def Delete(self, request: Any, context: Any) -> Any:
        await self.fake.begin("DeleteObject", context)
        kind, name = request.type.kind, request.id.name
        if self.fake.objects.pop((kind, name), None) is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such object")
        if kind == "Pod":
            self.fake.drop_pod(name)
        return resource_pb.DeleteResponse()


def _rule_event(item: Any) -> rule_pb.WatchWorkloadRulesResponse:
    if item is True:
        return rule_pb.WatchWorkloadRulesResponse(synced=True)
    if isinstance(item, str):
        return rule_pb.WatchWorkloadRulesResponse(deleted=item)
    return rule_pb.WatchWorkloadRulesResponse(rule=item)


def _pod_event(item: Any) -> resource_pb.WatchResponse:
    if item is True:
        return resource_pb.WatchResponse(synced=True)
    if isinstance(item, str):
        return resource_pb.WatchResponse(deleted=item)
    return resource_pb.WatchResponse(pod=item)
