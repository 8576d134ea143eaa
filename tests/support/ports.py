"""Ports for servers that are ended and started again."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


NODE_PORTS = range(30_000, 32_768)
"""Those that API servers give to Services."""


_GIVEN: set[int] = set()


def lasting_port(among: range | None = None) -> int:
    """A free port of 127.0.0.1 that stays free for the server while it is down; of these, where they are said.

    It is below the ephemeral ports: one of these may become the local end of any connection of this machine as soon as
    no server has it, and the server cannot bind it again. No other server of this test run gets it, also one that
    starts before the first listens: workers of pytest-xdist have ports of their own. Another run most likely finds another.
    """
    first = int(_EPHEMERAL.read_text().split()[0])
    ports = [port for port in _own(among or range(max(1024, first - 12_000), first)) if port not in _GIVEN]
    for port in random.SystemRandom().sample(ports, k=min(200, len(ports))):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _GIVEN.add(port)
            return port
    raise AssertionError("no such port is free")


def _own(ports: range) -> range:
    """Those of this worker."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return ports[number :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
