"""The service Registration: device plugins are called back, and listened to until they end.

Source: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import structlog

from app.devtools.kubelet.connecting import Endpoint, Unreachable, connect
from app.devtools.kubelet.resources import Resource, is_extended
from app.rmd.proto import plugin_grpc, plugin_pb

log = structlog.get_logger(__name__)
_VERSION = "v1beta1"
_GRACE_SECONDS = 300.0
"""How long the capacity of a resource stays without its plugin."""


class Registration(plugin_grpc.RegistrationServicer):
    """`resources` are all that were ever listed, `endpoints` the plugins that are connected; both by resource.

    The sockets of plugins are in `folder`. `changed` is called when `resources` may differ.
    """

    def __init__(self, folder: Path, changed: Callable[[], object]) -> None:
        self._folder, self._changed = folder, changed
        self.resources: dict[str, Resource] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self._streams: dict[str, asyncio.Task[None]] = {}
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
        try:
            endpoint = await connect(self._folder / request.endpoint)
        except Unreachable as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
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
        ended = [self._take_out(name) for name in tuple(self.endpoints)]
        for resource in self.resources.values():
            resource.disconnect()
        await asyncio.gather(*map(_leave, ended))

    async def _replace(self, name: str, endpoint: Endpoint) -> None:
        """The devices of the plugin before stay as they are until the new one lists its own."""
        old = self._take_out(name) if name in self.endpoints else None
        if name in self._timers:
            self._timers.pop(name).cancel()
        self.endpoints[name] = endpoint
        self._streams[name] = asyncio.create_task(self._listen(name, endpoint))
        if old is not None:
            await _leave(old)

    def _take_out(self, name: str) -> tuple[Endpoint, asyncio.Task[None]]:
        stream = self._streams.pop(name)
        stream.cancel()
        return self.endpoints.pop(name), stream

    async def _listen(self, name: str, endpoint: Endpoint) -> None:
        """Until the plugin ends, or is cancelled because it is replaced."""
        try:
            async for answer in endpoint.stub.ListAndWatch(plugin_pb.Empty()):
                self.resources.setdefault(name, Resource()).replace({one.ID: one for one in answer.devices})
                self._changed()
        except grpc.aio.AioRpcError as error:
            log.debug("a device plugin has ended", resource=name, error=error.details())
        del self.endpoints[name], self._streams[name]
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


async def _leave(plugin: tuple[Endpoint, asyncio.Task[None]]) -> None:
    endpoint, stream = plugin
    await asyncio.gather(stream, return_exceptions=True)
    await endpoint.channel.close()
