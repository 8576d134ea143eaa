"""Section `echoes`: how many there are."""

from __future__ import annotations

from app.echo.needs import ECHOES

from app.status.model import Found, Section
from app.status.reading import Reading


async def _read(reading: Reading) -> Found:
    return Found({"echoes": len(await reading.cluster.listed(ECHOES))})


SECTION = Section("echoes", "ECHOES", "What is heard.", _read, totals={"echoes": "Echoes"})
