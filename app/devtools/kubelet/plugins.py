"""Device plugins as kubelet's device manager keeps them: registered, called back, listened to until they end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import structlog

from app.kube.names import check_qualified_name
from app.rmd.proto import plugin_grpc, plugin_pb

log = structlog.get_logger(__name__)
VERSION = "v1beta1"
HEALTHY = "Healthy"
_DIAL_SECONDS = 10.0


@dataclass(slots=True)
class Plugin:
    """`devices` are those that it listed last, by their id; all are unhealthy once its stream has ended."""

    resource: str
    stub: plugin_grpc.DevicePluginStub
    channel: grpc.aio.Channel
    options: plugin_pb.DevicePluginOptions
    devices: Mapping[str, plugin_pb.Device] = field(default_factory=dict)
    connected: bool = True

    @property
    def healthy(self) -> dict[str, plugin_pb.Device]:
        return {name: one for name, one in self.devices.items() if self.connected and one.health == HEALTHY}


class Registration(plugin_grpc.RegistrationServicer):
    """The service Registration; `plugins` by resource. `changed` is called when a list has come or a stream ended."""

    def __init__(self, folder: Path, changed: Callable[[], object]) -> None:
        self._folder, self._changed = folder, changed
        self.plugins: dict[str, Plugin] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def Register(  # noqa: N802 - the name of the method
        self, request: plugin_pb.RegisterRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> plugin_pb.Empty:
        if request.version != VERSION:
            text = f"requested API version {request.version!r} is not supported by kubelet"
            await context.abort(grpc.StatusCode.UNKNOWN, f"{text}. Supported version is {VERSION!r}")
        if not _is_extended(request.resource_name):
            await context.abort(grpc.StatusCode.UNKNOWN, f"invalid name of resource {request.resource_name!r}")
        channel = grpc.aio.insecure_channel(f"unix:{self._folder / request.endpoint}")
        stub = plugin_grpc.DevicePluginStub(channel)
        try:
            options = await stub.GetDevicePluginOptions(plugin_pb.Empty(), timeout=_DIAL_SECONDS, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            await channel.close()
            await context.abort(grpc.StatusCode.UNKNOWN, f"failed to dial device plugin: {error.details()}")
        await self._end(request.resource_name)
        plugin = Plugin(request.resource_name, stub, channel, options)
        self.plugins[request.resource_name] = plugin
        self._tasks[request.resource_name] = asyncio.create_task(self._listen(plugin))
        return plugin_pb.Empty()

    async def close(self) -> None:
        """Every plugin is disconnected and has to register again."""
        for resource in tuple(self._tasks):
            await self._end(resource)

    async def _end(self, resource: str) -> None:
        task = self._tasks.pop(resource, None)
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _listen(self, plugin: Plugin) -> None:
        try:
            async for answer in plugin.stub.ListAndWatch(plugin_pb.Empty()):
                plugin.devices = {one.ID: one for one in answer.devices}
                self._changed()
        except grpc.aio.AioRpcError as error:
            log.debug("a device plugin has ended", resource=plugin.resource, error=error.details())
        finally:
            plugin.connected = False
            self._changed()
            await plugin.channel.close()


def _is_extended(name: str) -> bool:
    """Whether a plugin may announce it: a name with a domain that is not of Kubernetes."""
    domain, slash, _ = name.partition("/")
    if not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        return False
    try:
        check_qualified_name(name)
    except ValueError:
        return False
    return True
