"""Reads all sections of a cluster at the same time, and counts what the doctor finds."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from app.doctor.causes import roots
from app.doctor.checks import CHECKS, examine
from app.doctor.cluster import Cluster
from app.doctor.locating import locate
from app.doctor.model import internal
from app.errors import ApiError
from app.registry import WINGS
from app.status import roles
from app.status.model import Diagnosis, Found, Section, Status
from app.status.reading import Reading
from app.wiring import resolve

SECTIONS: tuple[Section, ...] = (roles.SECTION, *(resolve(one) for wing in WINGS for one in wing.status))


async def gather(cluster: Cluster) -> Status:
    """The status without the doctor's part. Raises ApiError where the API server cannot be asked at all."""
    await _accepted(cluster)
    await locate(cluster)
    found = await asyncio.gather(*(_read(cluster, section) for section in SECTIONS))
    parts = [(section, one) for section, one in zip(SECTIONS, found, strict=True) if one is not None]
    return Status(cluster.now(), cluster.namespace, cluster.release, tuple(parts))


async def _accepted(cluster: Cluster) -> None:
    """Raises ApiError where the API server does not answer, or does not know the user: no section would say more."""
    try:
        await cluster.skew()
    except ApiError as error:
        if error.status in (0, 401):
            raise


async def diagnose(cluster: Cluster) -> Diagnosis:
    """Runs all checks of the doctor, and counts as it does. Raises ApiError where the API server does not answer."""
    await locate(cluster)
    counts = Counter(one.severity for one in roots(await examine(cluster, CHECKS)))
    return Diagnosis(cluster.now(), counts, cluster.doctor("--release-name", cluster.release))


async def _read(cluster: Cluster, section: Section) -> Found | None:
    """One section; what it cannot read hides no other."""
    reading = Reading(cluster)
    try:
        found = await section.read(reading)
        if found is None or not found.unread or any(found.totals.values()):
            return found
        return replace(found, totals={})  # zeros would look as if they were counted
    except ApiError as refusal:
        reading.note(refusal)
    except Exception as error:  # noqa: BLE001  the wall of a section: one object that it cannot read must not hide the rest
        reading.unread.append(f"not read: {internal(error)}")
    return Found(unread=tuple(reading.unread))
