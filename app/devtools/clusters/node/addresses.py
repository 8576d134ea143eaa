"""Assigns loopback addresses to Pods, each to one process of this machine at a time, across all sandboxes.

All of 127.0.0.0/8 is loopback on Linux. A process claims an address with a socket bound to a reserved port of that
address. The claim ends when the process ends.
"""

from __future__ import annotations

import itertools
import os
import socket

from app.errors import Transient

_COUNT = 250 * 250
_PORT = 61066


def shown(address: str) -> str:
    """The address of a process as the API has it: the API server accepts no loopback address, so it is one of 10/8."""
    return address.replace("127.", "10.", 1)


class Claim:
    """One address, ours until `release`."""

    def __init__(self, address: str, holder: socket.socket) -> None:
        self.address = address
        self._holder = holder

    def release(self) -> None:
        self._holder.close()


_turn = itertools.count(os.getpid() * 250 % _COUNT)
"""Each sandbox begins at an address of its own, and a released address is not assigned again at once."""


def claim() -> Claim:
    """The next free address. Raises Transient where all are taken."""
    for _ in range(_COUNT):
        number = next(_turn) % _COUNT
        address = f"127.66.{number // 250}.{number % 250 + 2}"
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            holder.bind((address, _PORT))
        except OSError:
            holder.close()
            continue
        return Claim(address, holder)
    raise Transient("every address of 127.66.0.0/16 is taken")
