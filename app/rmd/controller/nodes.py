"""One node: reservations are read from its daemon, changed and read again; the statuses show the result.

An RmdNodeState shows all that the daemon holds, as it said last. An outage does not empty it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.conditions import Truth, set_condition
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.retry import Backoff
from app.kube.store import Key
from app.kube.walls import Patience
from app.kube.writing import write_status
from app.rmd import metrics
from app.rmd.controller.caches import RmdCaches
from app.rmd.controller.states import CREATED, failed, fitting, is_current, present, state_of, succeeded, unanswered
from app.rmd.controller.steps import DaemonPlan, Leaving, Pauses, Wanted, carry_out, faults_of, plan_node
from app.rmd.daemon.client import Daemon, DaemonClient, NoCertificate, Refused, Unanswered
from app.rmd.daemon.wire import CLASSES_USED_UP, GUARANTEED, Reservation, reason_of
from app.rmd.model import (
    CONNECTED,
    DAEMON_LABEL,
    DAEMON_NAMESPACE,
    DAEMON_VALUE,
    RMD_NODE_STATES,
    RMD_WORKLOADS,
    SERVER_NAME,
)
from app.rmd.stored import NodeState, Workload
from app.text import MESSAGE, one_line
from app.wire import JSON, copied, encode_json, size_as_go

log = structlog.get_logger(__name__)
NO_NODE = "there is no node"
"""How a state begins that no daemon said."""
_NAMED = 3
"""RmdWorkloads that a message names."""
_ROOM = 1024 * 1024
"""Bytes of the reservations in one status."""
_FIRST_PAUSE = 1.0
"""Seconds until a daemon is asked again for what it has refused; `interval` is the longest."""


class Silent(Transient):
    """A daemon does not answer; statuses say so."""

    expected = True


class NodeSync:
    """`interval` are the seconds after which a daemon is compared again: it may have restarted and have none.

    So it is also where some of its RmdWorkloads cannot be reserved, or written.
    """

    def __init__(
        self, client: KubeClient, daemons: DaemonClient, caches: RmdCaches, showing: Showing, *, interval: float
    ) -> None:
        self._client, self._daemons, self._caches = client, Daemons(daemons, caches), caches
        self._showing, self._interval = showing, interval
        self._pauses: dict[str, Pauses] = {}
        self._backoffs: dict[str, Backoff] = {}

    async def reconcile(self, node: str) -> Result:
        """Raises Transient where it has to be tried again."""
        workloads = [
            workload
            for workload in self._caches.workloads.by_index("node", node)
            if node in workload.states and workload.finalized
        ]
        state = self._caches.node_state_of(node)
        if not workloads and state is None:
            metrics.forget(node)
            self._pauses.pop(node, None)
            self._backoffs.pop(node, None)
            return Done()
        try:
            faults = await self._sync(node, self._daemons.of(node), workloads)
        except (Unanswered, Refused, NoCertificate) as error:
            await self._silent(node, workloads, str(error))
            raise Silent(f"node {node}: {error}") from error
        if not faults:
            self._backoffs.pop(node, None)
            return RequeueAfter(self._interval)
        return RequeueAfter(self._backoffs.setdefault(node, Backoff(_FIRST_PAUSE, self._interval)).next())

    async def _silent(self, node: str, workloads: list[Workload], fault: str) -> None:
        """The request that the daemon did not survive keeps its own text."""
        pauses = self._pauses.get(node)
        texts = {workload.key: (pauses.text_of(workload.key) if pauses else "") or fault for workload in workloads}
        states = {workload.key: failed(texts[workload.key], workload.states[node]) for workload in workloads}
        await self._write_all(node, workloads, states)
        metrics.silent(node, missing=sum(not workload.deleting for workload in workloads))
        ended = pauses.keys(ended=True) if pauses else []
        await self._showing.disconnected(self._caches.node_state_of(node), fault, ended)

    async def _sync(self, node: str, daemon: Daemon, workloads: list[Workload]) -> Mapping[Key, str]:
        """Why a status does not say that what is wanted is held, by RmdWorkload. Raises Unanswered and Refused."""
        pauses = self._pauses.get(node)
        if pauses is None or pauses.url != daemon.url:
            pauses = self._pauses[node] = Pauses(daemon.url)
        reservations = await daemon.reservations()
        every, text = await cores_of(node, daemon)
        want = _desired(node, workloads, every, self._caches.targets_of)
        plan = plan_node(want.wanted, want.leaving, reservations)
        refused = await carry_out(daemon, plan, pauses, every)
        if plan.release or plan.reserve:
            reservations = await daemon.reservations()
            plan = plan_node(want.wanted, want.leaving, reservations)
        missing = len(want.wanted) - len(plan.held)
        metrics.answered(node, held=len(plan.held), missing=missing, foreign=len(plan.foreign))
        faults = faults_of(plan, refused) | _untold(node, want.unknown, text)
        unwritten = await self._write_all(node, workloads, _states_after(node, workloads, want, plan, faults))
        # Last: a daemon may hold very much of others.
        try:
            await self._showing.connected(self._caches.node_state_of(node), reservations, pauses.keys())
        except ApiError as error:
            if error.about_server:
                raise
            log.warning("the RmdNodeState cannot be written", node=node, error=str(error))
        return faults | unwritten

    async def _write_all(
        self, node: str, workloads: Sequence[Workload], states: Mapping[Key, JSON | None]
    ) -> dict[Key, str]:
        """What the API server says of those that it does not take: they hold up no other."""
        refused: dict[Key, str] = {}
        patience = Patience()
        for workload in workloads:
            if workload.key not in states:
                continue
            try:
                await self._write(node, workload, states[workload.key])
            except ApiError as error:
                if patience.ends(error):
                    raise
                refused[workload.key] = str(error)
                log.warning(
                    "the status cannot be written", node=node, workload="/".join(workload.key), error=str(error)
                )
        return refused

    async def _write(self, node: str, workload: Workload, after: JSON | None) -> None:
        """The state of one node; None where the node has nothing any more. Other nodes write theirs meanwhile."""
        if after is not None:
            after = fitting({**after, "observedGeneration": workload.generation}, workload.states)
        if after != workload.states.get(node):
            await write_status(
                self._client, RMD_WORKLOADS, workload.key, workload.uid, after, below=("workloadStates", node)
            )


@dataclass(frozen=True, slots=True)
class _Desired:
    """`unknown` want every core of a machine that does not tell its cores."""

    wanted: list[Wanted] = field(default_factory=list)
    leaving: list[Leaving] = field(default_factory=list)
    unknown: list[Workload] = field(default_factory=list)


def _desired(
    node: str,
    workloads: Iterable[Workload],
    every: frozenset[int] | None,
    targets_of: Callable[[Workload], Sequence[str]],
) -> _Desired:
    """`every` are the cores of the machine, None where they are not known.

    An RmdWorkload with problems keeps what it has.
    """
    desired = _Desired()
    for workload in workloads:
        reservation_id, last = (
            str(workload.states[node].get("id") or ""),
            unanswered(workload.states[node], workload.generation),
        )
        request = workload.read.request
        if workload.deleting or (not workload.read.problems and node not in targets_of(workload)):
            desired.leaving.append(Leaving(workload.key, reservation_id, last))
        elif workload.read.problems:
            continue
        elif request.all_cores and every is None:
            desired.unknown.append(workload)
        else:
            cores = (every or frozenset()) - request.reserved if request.all_cores else request.cores
            desired.wanted.append(
                Wanted(workload.key, workload.created, cores, request.settings, reservation_id, request.numbered, last)
            )
    return desired


def _untold(node: str, unknown: Iterable[Workload], text: str) -> dict[Key, str]:
    """What the daemon said in place of its cores, for those that have nothing of the spec as it is."""
    return {
        workload.key: text
        for workload in unknown
        if not (succeeded(workload.states[node]) and is_current(workload.states[node], workload.generation))
    }


def _states_after(
    node: str, workloads: Iterable[Workload], want: _Desired, plan: DaemonPlan, faults: Mapping[Key, str]
) -> dict[Key, JSON | None]:
    """The states of the node; None where it has nothing any more. `plan` is what is left to do after all steps."""
    before = {workload.key: workload.states[node] for workload in workloads}
    states: dict[Key, JSON | None] = {owner.key: None for owner in want.leaving}
    for reserved, reservation in plan.held:
        response = present(before[reserved.key]) if before[reserved.key].get("id") == reservation.id else CREATED
        states[reserved.key] = state_of(reservation, response)
    # The id alone tells a reservation of the operator: it stays until the daemon has released that.
    keys = {owner.key for owner, _ in (*plan.release, *plan.blocked)} | {workload.key for workload in want.unknown}
    for key, text in faults.items():
        states[key] = failed(text, before[key] if key in keys and "id" in before[key] else None)
    return states


def rows_of(reservations: Sequence[Reservation]) -> dict[str, dict[str, str]]:
    """Reservations by uuid, under the operator's names; what has no value has no name.

    One of the operator's namespace stands under its name alone, as the operator has it. Those that come first are
    shown, as many as have room in an object: a daemon may hold any number of others.
    """
    rows: dict[str, dict[str, str]] = {}
    room = _ROOM
    for reservation in reservations:
        key = reservation.uuid.removeprefix(f"{DAEMON_NAMESPACE}/") or f"id {reservation.id}"
        key, row = key if key not in rows else f"{key} (id {reservation.id})", _row(reservation)
        room -= size_as_go(encode_json({key: row}))
        if room < 0:
            break
        rows[key] = row
    return rows


def _row(reservation: Reservation) -> dict[str, str]:
    settings = reservation.settings
    cache = settings.cache or (None, None)
    values = {
        "ID": reservation.id,
        "Core IDs": ",".join(reservation.core_ids),
        "Status": reservation.status,
        "Cos Name": reservation.cos,
        "Cache Max": cache[0],
        "Cache Min": cache[1],
        "MBA Percentage": settings.percentage,
        "MBA Mbps": settings.mbps,
        "Origin": reservation.origin,
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


class Daemons:
    def __init__(self, client: DaemonClient, caches: RmdCaches) -> None:
        self._client, self._caches = client, caches

    def of(self, node: str) -> Daemon:
        """Raises Unanswered and NoCertificate."""
        if self._caches.nodes.get("", node) is None:
            raise Unanswered(f"{NO_NODE} {node}")
        pod = self._caches.daemon_of(node)
        if pod is None or not pod.url:
            raise Unanswered(
                f"no daemon runs on the node: no Pod with the label {DAEMON_LABEL}={DAEMON_VALUE} is there"
            )
        tls = self._caches.certificates.context() if pod.url.startswith("https://") else None
        return self._client.at(pod.url, tls, server_name=SERVER_NAME if tls else "")


async def cores_of(node: str, daemon: Daemon) -> tuple[frozenset[int] | None, str]:
    """Every core of the machine; or None and what the daemon says, as it refuses where no class of service is left.

    Raises Unanswered where the daemon answers nothing else either.
    """
    try:
        caches = await daemon.caches()
    except Unanswered as error:
        await daemon.reservations()
        return None, str(error)
    except Refused as error:
        if reason_of(error.text) == CLASSES_USED_UP:
            metrics.none_free(node)
        return None, error.text
    metrics.free(node, {cache.id: len(cache.free.get(GUARANTEED, ())) for cache in caches})
    return frozenset().union(*(cache.cores for cache in caches)), ""
