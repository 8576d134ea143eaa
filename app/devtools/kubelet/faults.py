"""What some version of kubelet does wrong, or a broken one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import grpc
import grpc.aio


@dataclass(slots=True)
class Faults:
    """Each may be switched at any time."""

    shared: bool = False
    """Containers without CPUs of their own are listed with those that they share, as by 1.20."""
    ended: bool = False
    """A Pod that is removed is listed until it is removed again, as a Pod that has ended before 1.34. It is listed with
    its CPUs until the next Pod is admitted."""
    blank: bool = False
    """Pods are listed without CPUs, as by the policy `none`."""
    impossible: str = ""
    """Containers of this name are listed with a core that no machine has."""
    unready: bool = False
    """List is refused."""
    silent: bool = False
    """List does not answer."""
    garbled: bool = False
    """What List answers is no message."""


_NO_MESSAGE = b"\xff" * 16


class Garbling(grpc.aio.ServerInterceptor):
    """Puts bytes that cannot be decoded in the place of List's answer."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler: Any = await continuation(handler_call_details)
        if not self._faults.garbled or not handler_call_details.method.endswith("/List"):
            return cast("grpc.RpcMethodHandler[Any, Any] | None", handler)
        made: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
            handler.unary_unary,
            request_deserializer=handler.request_deserializer,
            response_serializer=lambda _answer: _NO_MESSAGE,
        )
        return made
