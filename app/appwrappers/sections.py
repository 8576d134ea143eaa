"""Section `appWrappers`, where their kind is there."""

from __future__ import annotations

from collections import Counter

from app.appwrappers.model import APP_WRAPPERS, PHASES
from app.doctor import objects
from app.status.model import Found, Section
from app.status.reading import Reading


async def _read(reading: Reading) -> Found | None:
    if not await reading.cluster.serves(APP_WRAPPERS):
        return None
    phases = Counter[str]()
    async for obj in reading.each(reading.cluster.paged(APP_WRAPPERS)):
        phases[str(objects.status(obj).get("phase") or "New")] += 1
    known = {phase: phases[phase] for phase in ("New", *PHASES) if phases[phase]}
    return Found({"all": phases.total(), **known}, unread=tuple(reading.unread))


SECTION = Section(
    "appWrappers",
    "APPWRAPPERS",
    "AppWrappers by their phase.",
    _read,
    totals={"all": "AppWrappers", "<phase>": "those in this phase, as `status.phase` has it; `New` before the first"},
)
