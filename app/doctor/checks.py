"""All checks, in the order in which a person would look: at every cluster first, then at what each wing needs.

Checks run concurrently and independently: one that fails does not keep the others from reporting.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from app.doctor import certificate, clock, definitions, deployments, permissions, reachability, registrations
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, unchecked, warning, worst
from app.errors import ApiError, UsageError
from app.registry import WINGS
from app.wiring import resolve

CHECKS: tuple[Check, ...] = (
    clock.CLOCK_CHECK,
    definitions.CHECK,
    deployments.CHECK,
    clock.LEASES_CHECK,
    registrations.CHECK,
    certificate.CHECK,
    reachability.CHECK,
    permissions.CHECK,
    *(resolve(check) for wing in WINGS for check in wing.checks),
)


async def examine(cluster: Cluster, checks: Sequence[Check]) -> list[Finding]:
    """The findings of all checks, the worst first, else in the order of the checks."""
    found = await asyncio.gather(*(run(cluster, check) for check in checks))
    once: dict[tuple[str, str], Finding] = {}
    for finding in (finding for findings in found for finding in findings):
        # A problem that several checks meet (a missing right) is reported once, by the first of them.
        once.setdefault((finding.subject, finding.message), finding)
    return sorted(once.values(), key=lambda finding: -finding.severity)


async def run(cluster: Cluster, check: Check) -> list[Finding]:
    """The findings of one check in their order, each once."""
    found: list[Finding] = []
    for part in check.parts:
        try:
            async for finding in part(cluster):
                found.append(finding)  # noqa: PERF401  what is found before an error counts
        except ApiError as error:
            found.append(unchecked(error))
        except Exception as error:  # noqa: BLE001  the wall of a check: one object that it cannot read must not hide the rest
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}"
            text = f"not checked: an internal error, {place}"
            found.append(warning("", text, "what is wrong here stays unseen; please report it"))
    highest = worst(one for one in found if one.unless is None)
    kept = (one for one in found if one.unless is None or highest < one.unless)
    return list(dict.fromkeys(replace(one, check=check.name, unless=None) for one in kept))


def pick(checks: Sequence[Check], only: Iterable[str]) -> list[Check]:
    """The checks of these names, all where none is named. Raises UsageError for a name that is none."""
    names = {check.name: check for check in checks}
    wanted = list(dict.fromkeys(only))
    for name in wanted:
        if name not in names:
            raise UsageError(f"--only: there is no check {name!r}: want one of {', '.join(names)}")
    return [names[name] for name in wanted] if wanted else list(checks)
