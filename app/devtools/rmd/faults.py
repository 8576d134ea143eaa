"""The faults of RMD v0.3, each with a switch, and the troubles that a daemon or its network may give a client."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Faults:
    """What RMD v0.3 does wrong. All are on, as in the daemon; a test of a fault also shows what is right without it."""

    patch_of_cores_fails: bool = True
    """A PATCH of cores alone is checked as a new workload, whose id then exists already."""
    errors_of_patch_are_500: bool = True
    other_origin_is_200: bool = True
    """PATCH and DELETE of what another origin made answer 200, with a text, and do nothing."""
    one_bandwidth: bool = True
    """The bandwidth of the request that was checked last is what every request enforces."""
    failed_patch_keeps_record: bool = True
    """After a PATCH that fails midway the record says what it said, with a class of service that is free again."""
    mbps_alone_refused: bool = True
    """On a machine with MBA alone, a request with Mbps alone counts as one without parameters."""
    unlocked_checks: bool = True
    """The database is checked outside the lock: two requests at once may get the same cores."""
    collection_keeps_classes: bool = True
    """Workloads whose tasks are all gone leave the database, and keep their classes of service."""


Kind = Literal["hang", "garbage", "html", "endless", "cut", "cut-after", "error", "empty"]


@dataclass(slots=True)
class Trouble:
    """What becomes of requests with one of `methods`, `times` times; "cut-after" is cut when the request is done."""

    kind: Kind
    methods: frozenset[str] = frozenset({"GET", "POST", "PATCH", "DELETE"})
    times: int = 2**31

    def applies(self, method: str) -> bool:
        if method not in self.methods or self.times <= 0:
            return False
        self.times -= 1
        return True


async def forever() -> None:
    await asyncio.Event().wait()
