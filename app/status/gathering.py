"""Reads all sections of a cluster at the same time, and counts what the doctor finds.

`Watch` does so again and again, at a bounded rate.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from app.doctor.cluster import Cluster, locate
from app.doctor.examining import CHECKS, examine
from app.doctor.model import NOT_ALLOWED, Severity, internal, is_right_beyond, roots
from app.errors import ApiError
from app.registry import WINGS
from app.status import roles
from app.status.model import Away, Diagnosis, Found, Section, Status
from app.status.reading import Reading
from app.wiring import resolve

SECTIONS: tuple[Section, ...] = (roles.SECTION, *(resolve(reference) for wing in WINGS for reference in wing.status))
EXAMINED_EVERY = 60.0
"""Seconds between two examinations by the doctor, which asks much more than the sections."""


async def gather(cluster: Cluster) -> Status:
    """The status without the doctor's part. Raises ApiError where the API server cannot be asked at all."""
    await accepted(cluster)
    await locate(cluster)
    chosen = [section for section in SECTIONS if section.of_users or not cluster.scope]
    beyond: dict[str, None] = {}
    contents = await asyncio.gather(*(read_section(cluster, section, beyond) for section in chosen))
    parts = [(section, content) for section, content in zip(chosen, contents, strict=True) if content is not None]
    return Status(
        cluster.now(),
        cluster.namespace,
        cluster.release,
        tuple(parts),
        scope=cluster.scope,
        left_out=tuple(section for section in SECTIONS if section not in chosen),
        beyond=tuple(beyond),
    )


async def accepted(cluster: Cluster) -> None:
    """Raises ApiError where the API server does not answer, or does not know the user: no section would say more."""
    try:
        await cluster.skew()
    except ApiError as error:
        if error.status in (0, 401):
            raise


async def diagnose(cluster: Cluster) -> Diagnosis:
    """Runs all checks of the doctor. Raises ApiError where the API server does not answer."""
    await locate(cluster)
    findings = roots(await examine(cluster, CHECKS))
    counts = Counter(finding.severity for finding in findings)
    look = cluster.aim.command(cluster.doctor("--release-name", cluster.release))
    problems = tuple(finding for finding in findings if finding.severity > Severity.info)
    hints = tuple(finding for finding in findings if finding.severity is Severity.info)
    return Diagnosis(cluster.now(), counts, look, problems, hints)


async def read_section(cluster: Cluster, section: Section, beyond: dict[str, None]) -> Found | None:
    """One section; what it cannot read hides no other. Rights that are missing outside of the scope go to `beyond`."""
    reading = Reading(cluster)
    try:
        content = _within(cluster.scope, await section.read(reading), beyond)
        if content is None or not content.unread or any(content.totals.values()):
            return content
        return replace(content, totals={})  # zeros would look as if they were counted
    except ApiError as refusal:
        reading.note(refusal)
    except Exception as error:  # noqa: BLE001  the wall of a section: one object that it cannot read must not hide the rest
        reading.unread.append(f"not read: {internal(error)}")
    return Found(unread=tuple(reading.unread))


def _within(scope: str, content: Found | None, beyond: dict[str, None]) -> Found | None:
    """Without what is missing outside of the scope, and None where nothing is left to say."""
    if not scope or content is None:
        return content
    outside = [text for text in content.unread if is_right_beyond(text, scope)]
    beyond.update(dict.fromkeys(text.removeprefix(NOT_ALLOWED) for text in outside))
    unread = tuple(text for text in content.unread if text not in outside)
    return replace(content, unread=unread) if unread or content.rows or any(content.totals.values()) else None


@dataclass
class Watch:
    """`fresh` makes a `Cluster` that has read nothing. `pause` are the seconds between two rounds of reads.

    A pause is never shorter than the reads before it took: a slow API server is asked half of the time at most.
    """

    fresh: Callable[[], Cluster]
    pause: float
    examined_every: float = EXAMINED_EVERY
    _diagnosis: Diagnosis | None = field(default=None, init=False)

    async def screens(self) -> AsyncGenerator[Status | Away]:
        """Without end; the first comes before the doctor has examined anything."""
        clock, doctor = asyncio.get_running_loop().time, asyncio.create_task(self._examine())
        try:
            while True:
                began = clock()
                yield await self._look()
                await asyncio.sleep(max(self.pause, clock() - began))
        finally:
            doctor.cancel()

    async def changes(self) -> AsyncGenerator[Status | Away]:
        """Only those that differ from the one before by more than times."""
        last: object = None
        async with aclosing(self.screens()) as screens:
            async for screen in screens:
                essence = screen.settled() if isinstance(screen, Status) else Away
                if essence != last:
                    last = essence
                    yield screen

    async def _look(self) -> Status | Away:
        cluster = self.fresh()
        try:
            return replace(await gather(cluster), diagnosis=self._diagnosis)
        except ApiError as error:
            return Away(cluster.now(), str(error))
        finally:
            await cluster.close()

    async def _examine(self) -> None:
        while True:
            cluster = self.fresh()
            try:
                self._diagnosis = await diagnose(cluster)
            except ApiError:
                await asyncio.sleep(self.pause)  # the screen says it
                continue
            finally:
                await cluster.close()
            await asyncio.sleep(self.examined_every)
