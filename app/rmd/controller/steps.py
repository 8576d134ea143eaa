"""Carries out the plan of a node at its daemon, and says what the daemon does not hold after it."""

from __future__ import annotations

from app.kube.store import Key
from app.rmd import metrics
from app.rmd.daemon.client import Daemon, Refused
from app.rmd.daemon.wire import Reservation, body_of
from app.rmd.planning import Plan


async def carry_out(daemon: Daemon, plan: Plan) -> dict[Key, str]:
    """What the daemon refused, by RmdWorkload. Raises Unanswered: then nothing more is sent."""
    refused: dict[Key, str] = {}
    for owner, reservation in plan.release:
        try:
            await daemon.release(reservation)
        except Refused as error:
            refused[owner.key] = error.text
    for one in plan.reserve:
        if one.key in refused:
            continue
        try:
            await daemon.reserve(body_of(one.uuid, one.core_ids, one.settings))
        except Refused as error:
            refused[one.key] = error.text
    for text in refused.values():
        metrics.refused(text)
    return refused


def faults_of(plan: Plan, refused: dict[Key, str]) -> dict[Key, str]:
    """Why a daemon does not hold what it should, after all steps, by RmdWorkload."""
    found = {owner.key: refused.get(owner.key, "the daemon has not released it") for owner, _ in plan.release}
    for one in plan.reserve:
        found[one.key] = refused.get(one.key, "the daemon holds something else than was sent")
    return found | {owner.key: _why_blocked(reservation) for owner, reservation in plan.blocked}


def _why_blocked(reservation: Reservation) -> str:
    if not reservation.addressable:
        return f"the daemon holds it under the id {reservation.id!r}, which no request can name"
    return f"the daemon holds it with origin {reservation.origin}, which this API cannot change"
