"""Section `appWrappers`, where their kind is there."""

from __future__ import annotations

from collections import Counter

from app.appwrappers.model import APP_WRAPPERS, PHASES
from app.doctor import objects
from app.status.model import Found, Section
from app.status.reading import Reading
from app.status.verdicts import COLUMNS, Tally


async def _read(reading: Reading) -> Found | None:
    if not await reading.cluster.serves(APP_WRAPPERS):
        return None
    phases, tally = Counter[str](), Tally(reading, APP_WRAPPERS)
    async for obj in reading.each(reading.cluster.paged(APP_WRAPPERS)):
        phases[str(objects.status(obj).get("phase") or "New")] += 1
        await tally.add(obj)
    known = {phase: phases[phase] for phase in ("New", *PHASES) if phases[phase]}
    return Found({"all": phases.total(), **known}, tally.rows(), tuple(reading.unread))


SECTION = Section(
    "appWrappers",
    "APPWRAPPERS",
    "AppWrappers by their phase, and why those that wait or fail do.",
    _read,
    words={"all": "AppWrappers"},
    totals={"all": "AppWrappers", "<phase>": "those in this phase, as `status.phase` has it; `New` before the first"},
    columns=COLUMNS,
    of_users=True,
)
