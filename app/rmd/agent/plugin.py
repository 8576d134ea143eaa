"""The device plugin of cache ways: what kubelet calls back.

Source: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from app.rmd.agent.ways import Pool
from app.rmd.model import L3_CACHE_WAYS
from app.rmd.proto import plugin_grpc, plugin_pb

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


class CacheWays(plugin_grpc.DevicePluginServicer):
    """`set` what there is; kubelet gets each list that differs from the one before, until the lists `end`."""

    def __init__(self) -> None:
        self._pools: tuple[Pool, ...] = ()
        self._healthy, self._version, self._term = False, 0, 0
        self._changed = asyncio.Condition()

    @property
    def pools(self) -> tuple[Pool, ...]:
        return self._pools

    async def set(self, pools: tuple[Pool, ...], *, healthy: bool) -> None:
        async with self._changed:
            if (pools, healthy) != (self._pools, self._healthy):
                self._pools, self._healthy = pools, healthy
                self._version += 1
                self._changed.notify_all()

    async def end(self) -> None:
        """End the lists of those that listen now."""
        async with self._changed:
            self._term += 1
            self._changed.notify_all()

    async def GetDevicePluginOptions(  # noqa: N802 - the name of the method
        self, _request: plugin_pb.Empty, _context: grpc.aio.ServicerContext[Any, Any]
    ) -> plugin_pb.DevicePluginOptions:
        return plugin_pb.DevicePluginOptions()

    async def ListAndWatch(  # noqa: N802
        self, _request: plugin_pb.Empty, _context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[plugin_pb.ListAndWatchResponse]:
        term = self._term
        while term == self._term:
            shown = self._version
            yield self._listed()
            async with self._changed:
                while shown == self._version and term == self._term:
                    await self._changed.wait()

    async def Allocate(  # noqa: N802
        self, request: plugin_pb.AllocateRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> plugin_pb.AllocateResponse:
        """The daemon chooses the ways later, for the RmdWorkload of the container. The container gets the ids."""
        known = {name for pool in self._pools for name in pool.ids}
        answers = []
        for one in request.container_requests:
            unknown = sorted(set(one.devices_ids) - known)
            if unknown:
                text = f"there is no cache way {', '.join(unknown)}: want one of {len(known)} that were listed"
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
            envs = {L3_CACHE_WAYS: ",".join(sorted(one.devices_ids))}
            answers.append(plugin_pb.ContainerAllocateResponse(envs=envs))
        return plugin_pb.AllocateResponse(container_responses=answers)

    def _listed(self) -> plugin_pb.ListAndWatchResponse:
        health = HEALTHY if self._healthy else UNHEALTHY
        devices = [
            plugin_pb.Device(ID=name, health=health, topology=_topology(pool))
            for pool in self._pools
            for name in pool.ids
        ]
        return plugin_pb.ListAndWatchResponse(devices=devices)


def _topology(pool: Pool) -> plugin_pb.TopologyInfo | None:
    return None if pool.numa is None else plugin_pb.TopologyInfo(nodes=[plugin_pb.NUMANode(ID=pool.numa)])
