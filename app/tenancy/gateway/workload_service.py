"""The service that takes what runs in tenants' clusters: one stream of each tenant, the newest."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.kube.rate import Rate
from app.tenancy.gateway.admitting import tenant_of_call
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.stored_workloads import StreamIds
from app.tenancy.gateway.workload_stream import WorkloadStream
from app.tenancy.proto import workload_grpc, workload_pb


class WorkloadService(workload_grpc.WorkloadServiceServicer):
    """One stream of a tenant is served at a time: a new one ends the old one with ABORTED."""

    def __init__(self, backend: Backend) -> None:
        limits = backend.limits
        self._backend = backend
        self._events: Rate[str] = Rate(per_second=limits.events_per_second, burst=limits.events_burst)
        self._ids = StreamIds()
        self._current: dict[str, WorkloadStream] = {}

    async def WorkloadStream(  # noqa: N802
        self, request_iterator: AsyncIterator[workload_pb.WorkloadStreamRequest], _context: object
    ) -> workload_pb.WorkloadStreamResponse:
        tenant = tenant_of_call()
        if (older := self._current.get(tenant.name)) is not None:
            older.superseded.set()
        stream = self._current[tenant.name] = WorkloadStream(
            self._backend, tenant, ids=self._ids, pace=lambda: self._events.turn(tenant.name)
        )
        try:
            await stream.run(request_iterator)
        finally:
            if self._current.get(tenant.name) is stream:
                del self._current[tenant.name]
        return workload_pb.WorkloadStreamResponse()
