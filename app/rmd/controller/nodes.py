"""One node: its daemon is asked, told and asked again; the statuses say what came of it."""

from __future__ import annotations

import structlog

from app.errors import Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.store import Key
from app.rmd.controller.caches import Caches
from app.rmd.controller.showing import Showing
from app.rmd.controller.states import CREATED, failed, present, state_of
from app.rmd.controller.writing import write_status
from app.rmd.daemon.certificates import NoCertificate
from app.rmd.daemon.client import Daemon, DaemonClient, Refused, Unanswered
from app.rmd.daemon.wire import Reservation, body_of
from app.rmd.model import DAEMON_LABEL, DAEMON_VALUE, RMD_WORKLOADS, SERVER_NAME
from app.rmd.planning import Leaving, Plan, Wanted, plan_node
from app.rmd.stored import Workload
from app.wire import JSON

log = structlog.get_logger(__name__)


class NotReserved(Transient):
    """A daemon refuses; statuses say so."""

    expected = True


class NodeSync:
    """`interval` are the seconds after which a daemon is compared again: it may have started anew, with nothing."""

    def __init__(
        self, client: KubeClient, daemons: DaemonClient, caches: Caches, showing: Showing, *, interval: float
    ) -> None:
        self._client, self._daemons, self._caches = client, daemons, caches
        self._showing, self._interval = showing, interval

    async def reconcile(self, node: str) -> Result:
        """Raises Transient where it has to be tried again."""
        workloads = [
            one for one in self._caches.workloads.by_index("node", node) if node in one.states and one.finalized
        ]
        state = self._caches.node_state_of(node)
        if not workloads and state is None:
            return Done()
        try:
            faults = await self._sync(node, self._daemon(node), workloads)
        except (Unanswered, Refused, NoCertificate) as error:
            for one in workloads:
                await self._write(node, one, failed(str(error), one.states[node]))
            await self._showing.disconnected(state, str(error))
            raise NotReserved(f"node {node}: {error}") from error
        if faults:
            raise NotReserved(f"node {node}: {next(iter(faults.values()))}")
        return RequeueAfter(self._interval)

    def _daemon(self, node: str) -> Daemon:
        if self._caches.nodes.get("", node) is None:
            raise Unanswered(f"there is no node {node}")
        pod = self._caches.daemon_of(node)
        if pod is None or not pod.url:
            raise Unanswered(
                f"no daemon runs on the node: no Pod with the label {DAEMON_LABEL}={DAEMON_VALUE} is there"
            )
        tls = self._caches.certificates.context() if pod.url.startswith("https://") else None
        return self._daemons.at(pod.url, tls, server_name=SERVER_NAME if tls else "")

    async def _sync(self, node: str, daemon: Daemon, workloads: list[Workload]) -> dict[Key, str]:
        """Why the daemon does not hold what is wanted, by RmdWorkload. Raises Unanswered and Refused."""
        wanted, leaving = await self._desired(node, daemon, workloads)
        found = await daemon.reservations()
        plan = plan_node(wanted, leaving, found)
        refused = await self._carry_out(daemon, plan)
        if plan.release or plan.reserve:
            found = await daemon.reservations()
            plan = plan_node(wanted, leaving, found)
        await self._showing.connected(self._caches.node_state_of(node), found)
        faults = _faults(plan, refused)
        by_key = {one.key: one for one in workloads}
        for one, reservation in plan.held:
            before = by_key[one.key].states[node]
            response = present(before) if before.get("id") == reservation.id else CREATED
            await self._write(node, by_key[one.key], state_of(reservation, response))
        for key, text in faults.items():
            await self._write(node, by_key[key], failed(text))
        for key in {one.key for one in leaving} - faults.keys():
            await self._write(node, by_key[key], None)
        return faults

    async def _desired(
        self, node: str, daemon: Daemon, workloads: list[Workload]
    ) -> tuple[list[Wanted], list[Leaving]]:
        """What the node should have. An RmdWorkload with problems keeps what it has."""
        wanted: list[Wanted] = []
        leaving: list[Leaving] = []
        every: frozenset[int] | None = None
        for one in workloads:
            known = str(one.states[node].get("id") or "")
            request = one.read.request
            if one.deleting or (not one.read.problems and node not in self._caches.targets_of(one)):
                leaving.append(Leaving(one.key, known))
            elif not one.read.problems:
                if request.all_cores and every is None:
                    every = await daemon.cores()
                cores = (every or frozenset()) - request.reserved if request.all_cores else request.cores
                wanted.append(Wanted(one.key, one.created, cores, request.settings, known))
        return wanted, leaving

    async def _carry_out(self, daemon: Daemon, plan: Plan) -> dict[Key, str]:
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
                await daemon.reserve(body_of(one.uuid, one.cores, one.settings))
            except Refused as error:
                refused[one.key] = error.text
        return refused

    async def _write(self, node: str, workload: Workload, after: JSON | None) -> None:
        """The state of one node; None where the node has nothing any more. Other nodes write theirs meanwhile."""
        if after != workload.states.get(node):
            await write_status(
                self._client, RMD_WORKLOADS, workload.key, workload.uid, after, below=("workloadStates", node)
            )


def _faults(plan: Plan, refused: dict[Key, str]) -> dict[Key, str]:
    """Why a daemon does not hold what it should, after all steps, by RmdWorkload."""
    found = {owner.key: refused.get(owner.key, "the daemon has not released it") for owner, _ in plan.release}
    for one in plan.reserve:
        found[one.key] = refused.get(one.key, "the daemon holds something else than was sent")
    return found | {owner.key: _why_blocked(reservation) for owner, reservation in plan.blocked}


def _why_blocked(reservation: Reservation) -> str:
    if not reservation.addressable:
        return f"the daemon holds it under the id {reservation.id!r}, which no request can name"
    return f"the daemon holds it with origin {reservation.origin}, which this API cannot change"
