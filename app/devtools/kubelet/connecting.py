"""The connection on which kubelet calls a device plugin back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from app.rmd.proto import plugin_grpc, plugin_pb

ON_ITS_OWN = (("grpc.use_local_subchannel_pool", 1),)
"""Options of a channel that does not wait because others could not connect to the same path before."""
_DIAL_SECONDS = 10.0


class Unreachable(Exception):
    """The text is what kubelet answers to the plugin that wants to register."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A plugin that answers."""

    channel: grpc.aio.Channel
    stub: plugin_grpc.DevicePluginStub
    options: plugin_pb.DevicePluginOptions


async def connect(path: Path) -> Endpoint:
    """Raises Unreachable where no plugin listens in time, or it does not say its options."""
    channel = grpc.aio.insecure_channel(f"unix:{path}", options=ON_ITS_OWN)
    stub = plugin_grpc.DevicePluginStub(channel)
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            await channel.channel_ready()
        options = await stub.GetDevicePluginOptions(plugin_pb.Empty())
    except BaseException as error:
        await channel.close()
        if isinstance(error, TimeoutError):
            raise Unreachable("failed to dial device plugin: context deadline exceeded") from None
        if isinstance(error, grpc.aio.AioRpcError):
            raise Unreachable(f"failed to get device plugin options: {as_kubelet_says(error)}") from error
        raise
    return Endpoint(channel, stub, options)


def as_kubelet_says(error: grpc.aio.AioRpcError) -> str:
    """An error of a plugin as Go prints it."""
    code = "".join(word.title() for word in error.code().name.split("_"))
    return f"rpc error: code = {code} desc = {error.details()}"
