"""Ports for servers that are ended and started again."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def lasting_port() -> int:
    """A free port of 127.0.0.1 that stays free for the server while it is down.

    It is below the ephemeral ports: one of these may become the local end of any connection of this machine as soon as
    no server has it, and the server cannot bind it again.
    """
    first = int(_EPHEMERAL.read_text().split()[0])
    for port in random.SystemRandom().sample(range(max(1024, first - 12_000), first), k=200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port below the ephemeral ones is free")
