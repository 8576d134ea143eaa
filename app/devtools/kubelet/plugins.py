"""The service Registration: device plugins are called back, and listened to until they end.

Source: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import structlog

from app.devtools.kubelet.resources import Resource, is_extended
from app.rmd.proto import plugin_grpc, plugin_pb

log = structlog.get_logger(__name__)
_VERSION = "v1beta1"
_DIAL_SECONDS = 10.0
_GRACE_SECONDS = 300.0
"""How long the capacity of a resource stays without its plugin."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A plugin that has registered."""

    channel: grpc.aio.Channel
    stub: plugin_grpc.DevicePluginStub
    options: plugin_pb.DevicePluginOptions


class Registration(plugin_grpc.RegistrationServicer):
    """`resources` are all that were ever listed, `endpoints` the plugins that are connected; both by resource.

    The sockets of plugins are in `folder`. `changed` is called when `resources` may differ.
    """

    def __init__(self, folder: Path, changed: Callable[[], object]) -> None:
        self._folder, self._changed = folder, changed
        self.resources: dict[str, Resource] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self._streams: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def Register(  # noqa: N802 - the name of the method
        self, request: plugin_pb.RegisterRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> plugin_pb.Empty:
        name = request.resource_name
        if request.version != _VERSION:
            text = f"requested API version {json.dumps(request.version)} is not supported by kubelet."
            await context.abort(grpc.StatusCode.UNKNOWN, f"{text} Supported version is {json.dumps([_VERSION])}")
        if not is_extended(name):
            await context.abort(grpc.StatusCode.UNKNOWN, f"the ResourceName {json.dumps(name)} is invalid")
        channel = grpc.aio.insecure_channel(f"unix:{self._folder / request.endpoint}")
        try:
            endpoint = await _connected(channel)
        except _Unreachable as error:
            await channel.close()
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except asyncio.CancelledError:
            await channel.close()
            raise
        await self._replace(name, endpoint)
        return plugin_pb.Empty()

    def open(self) -> None:
        """At the start of kubelet: the plugins have to register again, in time."""
        for name, resource in self.resources.items():
            resource.restart()
            self._forget_later(name)
            self._changed()

    async def close(self) -> None:
        """At the end of kubelet: nothing is reported."""
        for timer in self._timers.values():
            timer.cancel()
        endpoints, self.endpoints = tuple(self.endpoints.values()), {}
        for stream in self._streams:
            stream.cancel()
        for resource in self.resources.values():
            resource.disconnect()
        await asyncio.gather(*self._streams, return_exceptions=True)
        await asyncio.gather(*(one.channel.close() for one in endpoints))

    async def _replace(self, name: str, endpoint: Endpoint) -> None:
        """The devices of the plugin before stay as they are until the new one lists its own."""
        old = self.endpoints.get(name)
        self.endpoints[name] = endpoint
        if name in self._timers:
            self._timers.pop(name).cancel()
        stream = asyncio.create_task(self._listen(name, endpoint))
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)
        if old is not None:
            await old.channel.close()

    async def _listen(self, name: str, endpoint: Endpoint) -> None:
        try:
            async for answer in endpoint.stub.ListAndWatch(plugin_pb.Empty()):
                if self.endpoints.get(name) is endpoint:
                    self.resources.setdefault(name, Resource()).replace({one.ID: one for one in answer.devices})
                    self._changed()
        except grpc.aio.AioRpcError as error:
            log.debug("a device plugin has ended", resource=name, error=error.details())
        if self.endpoints.get(name) is endpoint:
            del self.endpoints[name]
            if name in self.resources:
                self.resources[name].disconnect()
                self._forget_later(name)
                self._changed()
            await endpoint.channel.close()

    def _forget_later(self, name: str) -> None:
        self._timers[name] = asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._forget, name)

    def _forget(self, name: str) -> None:
        self.resources[name].forget()
        self._changed()


class _Unreachable(Exception):
    """The text is what kubelet answers."""


async def _connected(channel: grpc.aio.Channel) -> Endpoint:
    """Raises _Unreachable where no plugin listens in time, or it does not say its options."""
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            await channel.channel_ready()
    except TimeoutError:
        raise _Unreachable("failed to dial device plugin: context deadline exceeded") from None
    stub = plugin_grpc.DevicePluginStub(channel)
    try:
        options = await stub.GetDevicePluginOptions(plugin_pb.Empty())
    except grpc.aio.AioRpcError as error:
        raise _Unreachable(f"failed to get device plugin options: {as_kubelet_says(error)}") from error
    return Endpoint(channel, stub, options)


def as_kubelet_says(error: grpc.aio.AioRpcError) -> str:
    """An error of a plugin as Go prints it."""
    code = "".join(word.title() for word in error.code().name.split("_"))
    return f"rpc error: code = {code} desc = {error.details()}"
