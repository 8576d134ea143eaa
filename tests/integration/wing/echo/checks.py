"""Check `echoes`: how many there are, and which of them are short."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.echo.needs import ECHOES

from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, info, ok


async def _echoes(cluster: Cluster) -> AsyncIterator[Finding]:
    echoes = await cluster.listed(ECHOES)
    yield ok("", f"{len(echoes)} echoes are heard")
    for echo in echoes:
        if len(text := objects.spec(echo)["text"]) < 9:
            yield info("BERTH9001", objects.Object(ECHOES, echo), text=text)


CHECK = Check("echoes", (_echoes,))
