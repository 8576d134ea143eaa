"""Keeps the tenant's rules at the gateway equal to the WorkloadRules of this cluster, and their statuses to its answer.

The gateway's Watch says what it has, so that what was changed or removed there is put right too.
"""

from __future__ import annotations

import grpc
import structlog

from app.tenancy.agent.answers import GatewayRefused
from app.tenancy.agent.remote import Rules
from app.tenancy.agent.requests import Requests
from app.tenancy.agent.views import ObjectView
from app.tenancy.messages import data_of_spec, status_json
from app.tenancy.proto import rule_pb
from app.workloads.model import AGENT_OWNER

log = structlog.get_logger(__name__)


class RuleSync(Requests[rule_pb.WorkloadRule]):
    _remote: Rules

    async def _converge(self, view: ObjectView) -> None:
        answer, have = self._answers.get(view.name, view.version), self._remote.items.get(view.name)
        if answer is not None and answer.refusal is not None:
            raise answer.refusal
        if have is not None and have.owner != AGENT_OWNER:
            keeper = repr(have.owner) if have.owner else "another client"
            raise GatewayRefused(
                f"the gateway has a rule of this name that is kept by {keeper}: delete it there first",
                code=grpc.StatusCode.ALREADY_EXISTS,
            )
        data = data_of_spec(view.decoded_spec())
        rule = rule_pb.WorkloadRule(id=view.name, data=data, owner=AGENT_OWNER, generation=view.generation)
        if have is not None and self._remote.holds(rule):
            await self._show(view, have.status)
            return
        try:
            await self._remote.send(rule)
        except GatewayRefused as error:
            self._answers.put(view.name, view.version, error)
            raise
        self._answers.drop(view.name)
        log.info("rule sent", name=view.name, generation=view.generation)

    async def _show(self, view: ObjectView, status: rule_pb.RuleStatus) -> None:
        if status.result and status.observed_generation == view.generation:
            shown = status_json(status)
            # A WorkloadRule with a condition that has no time would be refused.
            shown["conditions"] = [
                each for each in shown["conditions"] if each["type"] and each["status"] and each["lastTransitionTime"]
            ]
            await self._local.write_status(view, shown)
        elif view.observed and view.result != "success":
            # The gateway has taken it since, and its controller has written no status: our report is no longer true.
            await self._local.report(view, "", "Pending")

    async def _remove(self, name: str) -> None:
        self._remote.forget(name)
        await super()._remove(name)

    def _deletion(self, name: str) -> rule_pb.DeleteWorkloadRuleRequest | None:
        have = self._remote.items.get(name)
        return rule_pb.DeleteWorkloadRuleRequest(id=name) if have is not None and have.owner == AGENT_OWNER else None
