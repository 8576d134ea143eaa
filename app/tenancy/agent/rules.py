"""Keeps the tenant's rules at the gateway equal to the WorkloadRules of this cluster, and their statuses to its answer.

Level-based: the gateway's Watch says what it has, so that what was changed or removed there is put right too. Only
rules that an agent owns are ever deleted, and only after both sides are fully known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import grpc
import structlog

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, Result
from app.kube.events import Events
from app.kube.queue import WorkQueue
from app.kube.store import Store
from app.tenancy.agent.answers import Answers
from app.tenancy.agent.connection import Connection
from app.tenancy.agent.faults import GatewayRefused, GatewayUnavailable
from app.tenancy.agent.options import AgentOptions
from app.tenancy.agent.remote import Remote
from app.tenancy.agent.statuses import Patience, Report, StatusWriter, in_terms_of_the_object, unreached
from app.tenancy.agent.views import ObjectView
from app.tenancy.messages import data_of_spec, status_json
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.tenancy.proto.universe.workload.v1.workload_rule_pb2_grpc import WorkloadRuleServiceStub
from app.wire import JSON, decode_json
from app.workloads.model import AGENT_OWNER, WORKLOAD_RULES

log = structlog.get_logger(__name__)


class RuleSync:
    """`store` holds the WorkloadRules, `remote` the rules at the gateway."""

    def __init__(
        self,
        client: KubeClient,
        store: Store[ObjectView],
        remote: Remote[pb.WorkloadRule],
        *,
        connection: Connection,
        options: AgentOptions,
        events: Events | None = None,
    ) -> None:
        self._client = client
        self._store = store
        self._remote = remote
        self._connection = connection
        self._namespace = options.namespace
        self._writer = StatusWriter(client, WORKLOAD_RULES, namespace=options.namespace, events=events)
        self._patience = Patience(options.patience)
        self._answers = Answers(base=options.refusal_pause, cap=options.resync)
        self._taken: dict[str, tuple[pb.WorkloadRuleData, pb.WorkloadRuleData]] = {}
        self._controller: Controller[str] = Controller(
            "agent-rules",
            self._reconcile,
            stores=(store,),
            keys=self._everything,
            workers=options.workers,
            resync=options.resync,
            queue=WorkQueue(base=options.backoff_base, cap=options.backoff_cap),
        )
        store.subscribe(lambda _event, key, *_: self._controller.enqueue(key[1]))
        remote.subscribe(self._controller.enqueue)
        connection.subscribe("rules", self._enqueue_all)

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._controller.run())
            tasks.create_task(self._follow_rounds())

    async def _follow_rounds(self) -> None:
        """Each time that the gateway has told everything anew, look at everything."""
        rounds = self._remote.rounds
        while True:
            await self._remote.next_round(rounds)
            rounds = self._remote.rounds
            self._enqueue_all()

    def _enqueue_all(self) -> None:
        for name in self._everything():
            self._controller.enqueue(name)

    def _everything(self) -> Iterable[str]:
        """All names of either side; what was refused is asked again."""
        self._answers.clear()
        here = {name for _, name in self._store.keys()}  # noqa: SIM118  a Store is no mapping
        return sorted(here | self._remote.items.keys())

    async def _reconcile(self, name: str) -> Result:
        view, have = self._store.get(self._namespace, name), self._remote.items.get(name)
        if not self._remote.synced:
            problem, refusal = self._connection.problem("rules"), self._connection.refusal("rules")
            return await unreached(
                view, problem=problem, refusal=refusal, patience=self._patience, writer=self._writer, changes=True
            )
        if view is None:
            await self._remove(name, have)
            return Done()
        try:
            await self._converge(view, have)
        except GatewayRefused as error:
            await self._writer.report(view, Report("error", error.reason, in_terms_of_the_object(str(error))))
        except GatewayUnavailable as error:
            if not self._patience.left(name):
                await self._writer.report(view, Report("error", error.reason, str(error)))
            raise
        self._patience.settle(name)
        return self._answers.next(name)

    async def _converge(self, view: ObjectView, have: pb.WorkloadRule | None) -> None:
        """Update the rule where it differs, else show what the gateway says of it."""
        answer = self._answers.get(view.name, view.version)
        if answer is not None and answer.refusal is not None:
            raise answer.refusal
        if have is not None and have.owner != AGENT_OWNER:
            raise _kept_by(have.owner)
        want = data_of_spec(decode_json(view.spec))
        if have is None or have.generation != view.generation or not self._same(view.name, want, have.data):
            rule = pb.WorkloadRule(id=view.name, data=want, owner=AGENT_OWNER, generation=view.generation)
            try:
                taken = await self._connection.call(
                    WorkloadRuleServiceStub, "Update", pb.UpdateWorkloadRuleRequest(rule=rule)
                )
            except GatewayRefused as error:
                self._answers.put(view.name, view.version, error)
                raise
            self._answers.drop(view.name)
            self._taken[view.name] = want, taken.rule.data
            if self._remote.synced and self._remote.items.get(view.name) is have:
                # The watch tells the same a moment later; until then the rule would look as if it were to be sent.
                self._remote.put(view.name, taken.rule)
            log.info("rule sent", name=view.name, generation=view.generation)
            return
        await self._show(view, have.status)

    async def _show(self, view: ObjectView, status: pb.RuleStatus) -> None:
        if status.result and status.observed_generation == view.generation:
            await self._writer.write(view, _shown(status))
        elif view.observed and view.result != "success":
            # The gateway has taken it since, and its controller has not spoken yet: our own report is no longer true.
            await self._writer.report(view, Report("", "Pending"))

    def _same(self, name: str, want: pb.WorkloadRuleData, have: pb.WorkloadRuleData) -> bool:
        """Whether the gateway has the rule, as it was sent or as it made it of what was sent."""
        return have == want or self._taken.get(name) == (want, have)

    async def _remove(self, name: str, have: pb.WorkloadRule | None) -> None:
        self._patience.settle(name)
        self._taken.pop(name, None)
        self._answers.drop(name)
        if have is None or have.owner != AGENT_OWNER or await self._exists(name):
            return
        try:
            await self._connection.call(WorkloadRuleServiceStub, "Delete", pb.DeleteWorkloadRuleRequest(id=name))
        except GatewayRefused as error:
            if not error.not_found:
                raise
        log.info("rule removed", name=name)

    async def _exists(self, name: str) -> bool:
        """Ask the API server itself: a cache may lag behind another agent that has just sent a new rule."""
        try:
            found = await self._client.get(WORKLOAD_RULES, name, namespace=self._namespace)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return not found["metadata"].get("deletionTimestamp")


def _kept_by(owner: str) -> GatewayRefused:
    keeper = repr(owner) if owner else "another client"
    return GatewayRefused(
        f"the gateway has a rule of this name that is kept by {keeper}: delete it there first",
        code=grpc.StatusCode.ALREADY_EXISTS,
    )


def _shown(status: pb.RuleStatus) -> JSON:
    """The status as a WorkloadRule takes it: a condition without a time would be refused."""
    shown = status_json(status)
    shown["conditions"] = [c for c in shown["conditions"] if c["type"] and c["status"] and c["lastTransitionTime"]]
    return shown
