"""Sockets of a role, and how their addresses are told."""

from __future__ import annotations

import socket

from app.admission.server import bind
from app.errors import UsageError


def listen(flag: str, host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound socket; UsageError that names the flag where that cannot be."""
    try:
        return bind(host, port, shared=shared)
    except (OSError, TypeError) as error:  # a name that no host can have is a TypeError
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{flag} {port}: cannot listen on {host}: {reason}") from error


def address(listener: socket.socket, scheme: str) -> str:
    """Where the socket listens, as a URL."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def free_port(host: str) -> int:
    """A port that was free a moment ago, for a server that cannot be handed a socket."""
    with bind(host, 0) as found:
        port: int = found.getsockname()[1]
        return port
