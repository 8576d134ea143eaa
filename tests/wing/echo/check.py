"""Check `echoes`: how many there are."""

from __future__ import annotations

from dataclasses import dataclass

from app.echo.needs import ECHOES

from app.doctor.cluster import Cluster
from app.doctor.model import Finding, Severity


@dataclass(frozen=True, slots=True)
class Echoes:
    name: str = "echoes"

    async def run(self, cluster: Cluster) -> list[Finding]:
        count = len(await cluster.listed(ECHOES) or [])
        return [Finding(self.name, Severity.ok, "", f"{count} echoes are heard")]
