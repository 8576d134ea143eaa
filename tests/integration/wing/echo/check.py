"""Check `echoes`: how many there are."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.echo.needs import ECHOES

from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, ok


async def _echoes(cluster: Cluster) -> AsyncIterator[Finding]:
    yield ok("", f"{len(await cluster.listed(ECHOES))} echoes are heard")


CHECK = Check("echoes", (_echoes,))
