"""Ports for servers that are ended and started again."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


NODE_PORTS = range(30_000, 32_768)
"""Those that API servers give to Services."""


def lasting_port(among: range | None = None) -> int:
    """A free port of 127.0.0.1 that stays free for the server while it is down; of these, where they are said.

    It is below the ephemeral ports: one of these may become the local end of any connection of this machine as soon as
    no server has it, and the server cannot bind it again. It is any of thousands, so that another test which looks at
    the same time finds another.
    """
    first = int(_EPHEMERAL.read_text().split()[0])
    for port in random.SystemRandom().sample(among or range(max(1024, first - 12_000), first), k=200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no such port is free")
