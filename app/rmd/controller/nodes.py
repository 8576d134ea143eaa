"""One node: reservations are read from its daemon, changed and read again; the statuses show the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.retry import Backoff
from app.kube.store import Key
from app.kube.walls import Patience
from app.rmd import metrics
from app.rmd.controller.caches import Caches
from app.rmd.controller.comparing import desired, states_after, untold
from app.rmd.controller.daemons import Daemons, cores_of
from app.rmd.controller.showing import Showing
from app.rmd.controller.states import failed, fitting
from app.rmd.controller.steps import Pauses, carry_out, faults_of
from app.rmd.daemon.certificates import NoCertificate
from app.rmd.daemon.client import Daemon, DaemonClient, Refused, Unanswered
from app.rmd.model import RMD_WORKLOADS
from app.rmd.planning import plan_node
from app.rmd.stored import Workload
from app.rmd.writing import write_status
from app.wire import JSON

log = structlog.get_logger(__name__)
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
        self, client: KubeClient, daemons: DaemonClient, caches: Caches, showing: Showing, *, interval: float
    ) -> None:
        self._client, self._daemons, self._caches = client, Daemons(daemons, caches), caches
        self._showing, self._interval = showing, interval
        self._pauses: dict[str, Pauses] = {}
        self._backoffs: dict[str, Backoff] = {}

    async def reconcile(self, node: str) -> Result:
        """Raises Transient where it has to be tried again."""
        workloads = [
            one for one in self._caches.workloads.by_index("node", node) if node in one.states and one.finalized
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
        texts = {one.key: (pauses.text_of(one.key) if pauses else "") or fault for one in workloads}
        states = {one.key: failed(texts[one.key], one.states[node]) for one in workloads}
        await self._write_all(node, workloads, states)
        metrics.silent(node, missing=sum(not one.deleting for one in workloads))
        ended = pauses.keys(ended=True) if pauses else []
        await self._showing.disconnected(self._caches.node_state_of(node), fault, ended)

    async def _sync(self, node: str, daemon: Daemon, workloads: list[Workload]) -> Mapping[Key, str]:
        """Why a status does not say that what is wanted is held, by RmdWorkload. Raises Unanswered and Refused."""
        pauses = self._pauses.get(node)
        if pauses is None or pauses.url != daemon.url:
            pauses = self._pauses[node] = Pauses(daemon.url)
        found = await daemon.reservations()
        every, text = await cores_of(node, daemon)
        want = desired(node, workloads, every, self._caches.targets_of)
        plan = plan_node(want.wanted, want.leaving, found)
        refused = await carry_out(daemon, plan, pauses, every)
        if plan.release or plan.reserve:
            found = await daemon.reservations()
            plan = plan_node(want.wanted, want.leaving, found)
        missing = len(want.wanted) - len(plan.held)
        metrics.answered(node, held=len(plan.held), missing=missing, foreign=len(plan.foreign))
        faults = faults_of(plan, refused) | untold(node, want.unknown, text)
        unwritten = await self._write_all(node, workloads, states_after(node, workloads, want, plan, faults))
        # Last: a daemon may hold very much of others.
        try:
            await self._showing.connected(self._caches.node_state_of(node), found, pauses.keys())
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
        for one in workloads:
            if one.key not in states:
                continue
            try:
                await self._write(node, one, states[one.key])
            except ApiError as error:
                if patience.ends(error):
                    raise
                refused[one.key] = str(error)
                log.warning("the status cannot be written", node=node, workload="/".join(one.key), error=str(error))
        return refused

    async def _write(self, node: str, workload: Workload, after: JSON | None) -> None:
        """The state of one node; None where the node has nothing any more. Other nodes write theirs meanwhile."""
        if after is not None:
            after = fitting({**after, "observedGeneration": workload.generation}, workload.states)
        if after != workload.states.get(node):
            await write_status(
                self._client, RMD_WORKLOADS, workload.key, workload.uid, after, below=("workloadStates", node)
            )
