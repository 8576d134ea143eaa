"""RmdNodeStates: all that the daemon of a node holds, as it said last. An outage does not empty it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from app.kube.client import KubeClient
from app.kube.conditions import Truth, set_condition
from app.kube.store import Key
from app.kube.writing import write_status
from app.rmd.daemon.wire import Reservation
from app.rmd.model import CONNECTED, DAEMON_NAMESPACE, RMD_NODE_STATES
from app.rmd.stored import NodeState
from app.text import MESSAGE, one_line
from app.wire import JSON, copied, encode_json, size_as_go

_NAMED = 3
"""RmdWorkloads that a message names."""
_ROOM = 1024 * 1024
"""Bytes of the reservations in one status."""


def rows_of(reservations: Sequence[Reservation]) -> dict[str, dict[str, str]]:
    """Reservations by uuid, under the operator's names; what has no value has no name.

    One of the operator's namespace stands under its name alone, as the operator has it. Those that come first are
    shown, as many as have room in an object: a daemon may hold any number of others.
    """
    found: dict[str, dict[str, str]] = {}
    room = _ROOM
    for reservation in reservations:
        key = reservation.uuid.removeprefix(f"{DAEMON_NAMESPACE}/") or f"id {reservation.id}"
        key, row = key if key not in found else f"{key} (id {reservation.id})", _row(reservation)
        room -= size_as_go(encode_json({key: row}))
        if room < 0:
            break
        found[key] = row
    return found


def _row(one: Reservation) -> dict[str, str]:
    settings = one.settings
    cache = settings.cache or (None, None)
    values = {
        "ID": one.id,
        "Core IDs": ",".join(one.core_ids),
        "Status": one.status,
        "Cos Name": one.cos,
        "Cache Max": cache[0],
        "Cache Min": cache[1],
        "MBA Percentage": settings.percentage,
        "MBA Mbps": settings.mbps,
        "Origin": one.origin,
        "Policy": settings.policy,
        "P-State Ratio": None if settings.ratio is None else f"{settings.ratio:f}",
        "P-State Monitoring": settings.monitoring,
    }
    return {name: str(value) for name, value in values.items() if value not in (None, "")}


def _names(keys: Sequence[Key]) -> str:
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return ", ".join("/".join(key) for key in keys[:_NAMED]) + more


class Showing:
    """Writes the status of an RmdNodeState where it differs; without one, nothing."""

    def __init__(self, client: KubeClient, now: Callable[[], datetime]) -> None:
        self._client, self._now = client, now

    async def connected(
        self, state: NodeState | None, reservations: Sequence[Reservation], unanswered: Sequence[Key]
    ) -> None:
        """`unanswered` are the RmdWorkloads to whose requests the daemon gives no answer."""
        if state is not None:
            rows = rows_of(reservations)
            text = "the daemon answers"
            if unanswered:
                text += f", but not the requests of {_names(unanswered)}: they are made after all others"
            if len(reservations) > len(rows):
                text += f"; {len(reservations) - len(rows)} more of its reservations are not shown"
            reason = "AnswersOthers" if unanswered else "Answered"
            changes = {"workloads": rows, "reservations": len(reservations)}
            await self._write(state, changes, "True", reason, text)

    async def disconnected(self, state: NodeState | None, fault: str, ended: Sequence[Key]) -> None:
        """`ended` are the RmdWorkloads after whose requests the daemon answered nothing any more."""
        if state is not None:
            cause = f"after the request of {_names(ended)} it answered nothing any more: " if ended else ""
            rows = {"workloads": state.status.get("workloads") or {}}
            await self._write(state, rows, "False", "NoAnswer", one_line(cause + fault, MESSAGE))

    async def _write(self, state: NodeState, changes: JSON, truth: Truth, reason: str, message: str) -> None:
        after = copied(dict(state.status)) | {"observedGeneration": state.generation, **changes}
        set_condition(after, CONNECTED, truth, reason, message, now=self._now(), generation=state.generation)
        if after != state.status:
            await write_status(self._client, RMD_NODE_STATES, state.key, state.uid, after)
