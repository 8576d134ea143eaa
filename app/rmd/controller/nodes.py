"""One node: reservations are read from its daemon, changed and read again; the statuses show the result."""

from __future__ import annotations

from app.errors import Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.store import Key
from app.rmd import metrics
from app.rmd.controller.caches import Caches
from app.rmd.controller.daemons import Daemons, cores_of
from app.rmd.controller.showing import Showing
from app.rmd.controller.states import CREATED, failed, present, state_of, succeeded
from app.rmd.controller.steps import carry_out, faults_of
from app.rmd.daemon.certificates import NoCertificate
from app.rmd.daemon.client import Daemon, DaemonClient, Refused, Unanswered
from app.rmd.model import RMD_WORKLOADS
from app.rmd.planning import Leaving, Wanted, plan_node
from app.rmd.stored import Workload
from app.rmd.writing import write_status
from app.wire import JSON


class NotReserved(Transient):
    """A daemon refuses; statuses say so."""

    expected = True


class NodeSync:
    """`interval` are the seconds after which a daemon is compared again: it may have started anew, with nothing."""

    def __init__(
        self, client: KubeClient, daemons: DaemonClient, caches: Caches, showing: Showing, *, interval: float
    ) -> None:
        self._client, self._daemons, self._caches = client, Daemons(daemons, caches), caches
        self._showing, self._interval = showing, interval

    async def reconcile(self, node: str) -> Result:
        """Raises Transient where it has to be tried again."""
        workloads = [
            one for one in self._caches.workloads.by_index("node", node) if node in one.states and one.finalized
        ]
        state = self._caches.node_state_of(node)
        if not workloads and state is None:
            metrics.forget(node)
            return Done()
        try:
            faults = await self._sync(node, self._daemons.of(node), workloads)
        except (Unanswered, Refused, NoCertificate) as error:
            for one in workloads:
                await self._write(node, one, failed(str(error), one.states[node]))
            metrics.silent(node, missing=sum(not one.deleting for one in workloads))
            await self._showing.disconnected(state, str(error))
            raise NotReserved(f"node {node}: {error}") from error
        if faults:
            raise NotReserved(f"node {node}: {next(iter(faults.values()))}")
        return RequeueAfter(self._interval)

    async def _sync(self, node: str, daemon: Daemon, workloads: list[Workload]) -> dict[Key, str]:
        """Why the daemon does not hold what is wanted, by RmdWorkload. Raises Unanswered and Refused."""
        found = await daemon.reservations()
        every, untold = await cores_of(node, daemon)
        wanted, leaving, unknown = self._desired(node, every, workloads)
        plan = plan_node(wanted, leaving, found)
        refused = await carry_out(daemon, plan)
        if plan.release or plan.reserve:
            found = await daemon.reservations()
            plan = plan_node(wanted, leaving, found)
        faults = faults_of(plan, refused) | {one.key: untold for one in unknown if not succeeded(one.states[node])}
        metrics.answered(node, held=len(plan.held), missing=len(wanted) - len(plan.held), foreign=len(plan.foreign))
        by_key = {one.key: one for one in workloads}
        for one, reservation in plan.held:
            before = by_key[one.key].states[node]
            response = present(before) if before.get("id") == reservation.id else CREATED
            await self._write(node, by_key[one.key], state_of(reservation, response))
        for key, text in faults.items():
            await self._write(node, by_key[key], failed(text))
        for key in {one.key for one in leaving} - faults.keys():
            await self._write(node, by_key[key], None)
        # Last: an API server refuses a status that is too big, and a daemon may hold very much of others.
        await self._showing.connected(self._caches.node_state_of(node), found)
        return faults

    def _desired(
        self, node: str, every: frozenset[int] | None, workloads: list[Workload]
    ) -> tuple[list[Wanted], list[Leaving], list[Workload]]:
        """What the node should have; and what wants every core where those are not known (None).

        An RmdWorkload with problems keeps what it has.
        """
        wanted: list[Wanted] = []
        leaving: list[Leaving] = []
        unknown: list[Workload] = []
        for one in workloads:
            known = str(one.states[node].get("id") or "")
            request = one.read.request
            if one.deleting or (not one.read.problems and node not in self._caches.targets_of(one)):
                leaving.append(Leaving(one.key, known))
            elif one.read.problems:
                continue
            elif request.all_cores and every is None:
                unknown.append(one)
            else:
                cores = (every or frozenset()) - request.reserved if request.all_cores else request.cores
                wanted.append(Wanted(one.key, one.created, cores, request.settings, known))
        return wanted, leaving, unknown

    async def _write(self, node: str, workload: Workload, after: JSON | None) -> None:
        """The state of one node; None where the node has nothing any more. Other nodes write theirs meanwhile."""
        if after != workload.states.get(node):
            await write_status(
                self._client, RMD_WORKLOADS, workload.key, workload.uid, after, below=("workloadStates", node)
            )
