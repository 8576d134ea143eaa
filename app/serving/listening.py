"""Sockets of a role, and how their addresses are told."""

from __future__ import annotations

import socket

from app.errors import UsageError


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound TCP socket; port 0 takes a free one. Raises OSError where the address is taken.

    `shared` sockets may be bound several times to one port; the kernel spreads connections over them.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio turns off Nagle's algorithm on what is accepted, as uvloop always does.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    sock.set_inheritable(True)
    return sock


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
