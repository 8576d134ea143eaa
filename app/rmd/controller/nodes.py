"""One node: reservations are read from its daemon, changed and read again; the statuses show the result."""

from __future__ import annotations

from app.errors import Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.store import Key
from app.rmd import metrics
from app.rmd.controller.caches import Caches
from app.rmd.controller.comparing import desired, states_after, untold
from app.rmd.controller.daemons import Daemons, cores_of
from app.rmd.controller.showing import Showing
from app.rmd.controller.states import failed, fitting
from app.rmd.controller.steps import carry_out, faults_of
from app.rmd.daemon.certificates import NoCertificate
from app.rmd.daemon.client import Daemon, DaemonClient, Refused, Unanswered
from app.rmd.model import RMD_WORKLOADS
from app.rmd.planning import plan_node
from app.rmd.stored import Workload
from app.rmd.writing import write_status
from app.wire import JSON


class NotReserved(Transient):
    """A daemon refuses; statuses say so."""

    expected = True


class NodeSync:
    """`interval` are the seconds after which a daemon is compared again: it may have restarted and have none."""

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
        every, text = await cores_of(node, daemon)
        want = desired(node, workloads, every, self._caches.targets_of)
        plan = plan_node(want.wanted, want.leaving, found)
        refused = await carry_out(daemon, plan)
        if plan.release or plan.reserve:
            found = await daemon.reservations()
            plan = plan_node(want.wanted, want.leaving, found)
        missing = len(want.wanted) - len(plan.held)
        metrics.answered(node, held=len(plan.held), missing=missing, foreign=len(plan.foreign))
        faults = faults_of(plan, refused) | untold(node, want.unknown, text)
        states = states_after(node, workloads, want, plan, faults)
        for one in workloads:
            if one.key in states:
                await self._write(node, one, states[one.key])
        # Last: an API server refuses a status that is too big, and a daemon may hold very much of others.
        await self._showing.connected(self._caches.node_state_of(node), found)
        return faults

    async def _write(self, node: str, workload: Workload, after: JSON | None) -> None:
        """The state of one node; None where the node has nothing any more. Other nodes write theirs meanwhile."""
        if after is not None:
            after = fitting({**after, "observedGeneration": workload.generation}, workload.states)
        if after != workload.states.get(node):
            await write_status(
                self._client, RMD_WORKLOADS, workload.key, workload.uid, after, below=("workloadStates", node)
            )
