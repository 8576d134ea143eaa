"""Keeps the tenant's rules at the gateway equal to the WorkloadRules of this cluster, and their statuses to its answer.

The gateway's Watch says what it has, so that what was changed or removed there is put right too.
"""

from __future__ import annotations

import grpc
import structlog

from app.kube.store import Store
from app.tenancy.agent.faults import GatewayRefused
from app.tenancy.agent.remote import Remote
from app.tenancy.agent.statuses import Report
from app.tenancy.agent.syncing import Context, Requests
from app.tenancy.agent.views import ObjectView
from app.tenancy.messages import data_of_spec, status_json
from app.tenancy.proto import rule_grpc, rule_pb
from app.wire import JSON, decode_json
from app.workloads.model import AGENT_OWNER, WORKLOAD_RULES

log = structlog.get_logger(__name__)


class RuleSync(Requests[rule_pb.WorkloadRule]):
    """`store` holds the WorkloadRules, `remote` the rules at the gateway."""

    stream = "rules"
    stub = rule_grpc.WorkloadRuleServiceStub
    volatile = True

    def __init__(self, context: Context, store: Store[ObjectView], remote: Remote[rule_pb.WorkloadRule]) -> None:
        super().__init__("rules", context, WORKLOAD_RULES, store, remote)
        self._taken: dict[str, tuple[rule_pb.WorkloadRuleData, rule_pb.WorkloadRuleData]] = {}
        remote.subscribe(self._controller.enqueue)

    async def _converge(self, view: ObjectView) -> None:
        """Update the rule where it differs, else show what the gateway says of it."""
        answer, have = self._answers.get(view.name, view.version), self._remote.items.get(view.name)
        if answer is not None and answer.refusal is not None:
            raise answer.refusal
        if have is not None and have.owner != AGENT_OWNER:
            raise _kept_by(have.owner)
        want = data_of_spec(decode_json(view.spec))
        if have is not None and have.generation == view.generation and self._same(view.name, want, have.data):
            await self._show(view, have.status)
            return
        rule = rule_pb.WorkloadRule(id=view.name, data=want, owner=AGENT_OWNER, generation=view.generation)
        try:
            taken = await self._call("Update", rule_pb.UpdateWorkloadRuleRequest(rule=rule))
        except GatewayRefused as error:
            self._answers.put(view.name, view.version, error)
            raise
        self._answers.drop(view.name)
        self._taken[view.name] = want, taken.rule.data
        if self._remote.synced and self._remote.items.get(view.name) is have:
            # The watch tells the same a moment later; until then the rule would look as if it were to be sent.
            self._remote.put(view.name, taken.rule)
        log.info("rule sent", name=view.name, generation=view.generation)

    async def _show(self, view: ObjectView, status: rule_pb.RuleStatus) -> None:
        if status.result and status.observed_generation == view.generation:
            await self._writer.write(view, _shown(status))
        elif view.observed and view.result != "success":
            # The gateway has taken it since, and its controller has not spoken yet: our own report is no longer true.
            await self._writer.report(view, Report("", "Pending"))

    def _same(self, name: str, want: rule_pb.WorkloadRuleData, have: rule_pb.WorkloadRuleData) -> bool:
        """Whether the gateway has the rule, as it was sent or as it made it of what was sent."""
        return have == want or self._taken.get(name) == (want, have)

    async def _remove(self, name: str) -> None:
        self._taken.pop(name, None)
        await super()._remove(name)

    def _owns(self, name: str) -> bool:
        have = self._remote.items.get(name)
        return have is not None and have.owner == AGENT_OWNER

    def _deletion(self, name: str) -> rule_pb.DeleteWorkloadRuleRequest:
        return rule_pb.DeleteWorkloadRuleRequest(id=name)


def _kept_by(owner: str) -> GatewayRefused:
    keeper = repr(owner) if owner else "another client"
    return GatewayRefused(
        f"the gateway has a rule of this name that is kept by {keeper}: delete it there first",
        code=grpc.StatusCode.ALREADY_EXISTS,
    )


def _shown(status: rule_pb.RuleStatus) -> JSON:
    """The status as a WorkloadRule takes it: a condition without a time would be refused."""
    shown = status_json(status)
    shown["conditions"] = [c for c in shown["conditions"] if c["type"] and c["status"] and c["lastTransitionTime"]]
    return shown
