"""The service that takes what runs in tenants' clusters: one stream of each tenant, the newest.

It hands the stream to `workloadstream` and sees to it that an older stream of the same tenant ends: at this replica
when a newer one begins, at another one when a Workload shows that a newer one writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from app.tenancy.gateway.admitting import tenant_of_call
from app.tenancy.gateway.failures import Code, Refused
from app.tenancy.gateway.receiving import Context
from app.tenancy.gateway.workloadstream import WorkloadStream
from app.tenancy.gateway.writing import Writing
from app.tenancy.proto.universe.workload.v1 import workload_pb2 as pb
from app.tenancy.proto.universe.workload.v1 import workload_pb2_grpc as pb_grpc


class WorkloadService(pb_grpc.WorkloadServiceServicer):
    """One stream of a tenant is served at a time: a new one ends the old one with ABORTED."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._current: dict[str, asyncio.Event] = {}

    async def WorkloadStream(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.WorkloadStreamRequest], _context: Context
    ) -> pb.WorkloadStreamResponse:
        tenant = tenant_of_call()
        superseded = asyncio.Event()
        if (older := self._current.get(tenant.name)) is not None:
            older.set()
        self._current[tenant.name] = superseded
        stream = WorkloadStream(self._writing, tenant, superseded)
        serving = asyncio.create_task(stream.run(request_iterator))
        newer = asyncio.create_task(superseded.wait())
        try:
            await asyncio.wait({serving, newer}, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                raise Refused(Code.ABORTED, "a newer stream of the same tenant has taken over")
            serving.result()
        finally:
            serving.cancel()
            newer.cancel()
            await asyncio.gather(serving, newer, return_exceptions=True)
            if self._current.get(tenant.name) is superseded:
                del self._current[tenant.name]
        return pb.WorkloadStreamResponse()
