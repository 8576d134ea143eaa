"""The services of rules: a tenant's own, and the cloud admin's over several tenants.

Each request is checked wholly before anything is stored; all problems come back in one message.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager

from app.tenancy.gateway.admitting import label_of_call, tenant_of_call
from app.tenancy.gateway.backend import Backend
from app.tenancy.gateway.failures import invalid
from app.tenancy.gateway.feed import follow
from app.tenancy.gateway.rule_check import Wanted, admin_wanted_of, checked_id, keys_of, wanted_of
from app.tenancy.gateway.rulequota import RuleQuota, refuse_beyond
from app.tenancy.gateway.rulestore import RuleStore
from app.tenancy.messages import admin_rule_message, rule_message
from app.tenancy.proto import admin_grpc, admin_pb, rule_grpc
from app.tenancy.proto import rule_pb as pb
from app.workloads.model import ADMIN_RULES, SYSTEM_NAMESPACE, TENANT_RULES


class WorkloadRuleService(rule_grpc.WorkloadRuleServiceServicer):
    """The rules of the calling tenant, in its namespace."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._rules = RuleStore(backend, TENANT_RULES, rule_message, owners=True)
        self._quota = RuleQuota(
            backend.sources.rules, workloads=backend.sources.count_workloads, pairs=backend.limits.pairs
        )

    async def Create(self, request: pb.CreateWorkloadRuleRequest, _context: object) -> pb.CreateWorkloadRuleResponse:  # noqa: N802
        wanted, namespace = await self._wanted(request.rule)
        with self._room(wanted, namespace):
            return pb.CreateWorkloadRuleResponse(rule=await self._rules.create(wanted, namespace=namespace))

    async def Get(self, request: pb.GetWorkloadRuleRequest, _context: object) -> pb.GetWorkloadRuleResponse:  # noqa: N802
        found = await self._rules.get(checked_id(request.id), namespace=tenant_of_call().namespace)
        return pb.GetWorkloadRuleResponse(rule=found)

    async def List(self, _request: pb.ListWorkloadRulesRequest, _context: object) -> pb.ListWorkloadRulesResponse:  # noqa: N802
        return pb.ListWorkloadRulesResponse(rules=await self._rules.messages(namespace=tenant_of_call().namespace))

    async def Update(self, request: pb.UpdateWorkloadRuleRequest, _context: object) -> pb.UpdateWorkloadRuleResponse:  # noqa: N802
        wanted, namespace = await self._wanted(request.rule)
        with self._room(wanted, namespace):
            return pb.UpdateWorkloadRuleResponse(rule=await self._rules.put(wanted, namespace=namespace))

    async def Delete(self, request: pb.DeleteWorkloadRuleRequest, _context: object) -> pb.DeleteWorkloadRuleResponse:  # noqa: N802
        namespace = tenant_of_call().namespace
        await self._rules.delete(checked_id(request.id), namespace=namespace)
        self._quota.deleted(namespace, request.id)
        return pb.DeleteWorkloadRuleResponse()

    async def Watch(  # noqa: N802
        self, _request: pb.WatchWorkloadRulesRequest, _context: object
    ) -> AsyncGenerator[pb.WatchWorkloadRulesResponse, None]:
        changes = follow(
            self._backend.sources.rules,
            namespace=tenant_of_call().namespace,
            item=lambda message: {"rule": pb.WorkloadRule.FromString(message)},
        )
        async for change in changes:
            yield pb.WatchWorkloadRulesResponse(**change)

    async def _wanted(self, rule: pb.WorkloadRule) -> tuple[Wanted, str]:
        namespace, placement = tenant_of_call().namespace, self._backend.options.placement
        return await _read(self._backend, rule, lambda: wanted_of(rule, namespace, placement)), namespace

    def _room(self, wanted: Wanted, namespace: str) -> AbstractContextManager[None]:
        return self._quota.room(namespace, wanted.name, wanted.keys)


class AdminWorkloadRuleService(admin_grpc.AdminWorkloadRuleServiceServicer):
    """The cloud admin's rules, in the system namespace of the infra cluster."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._rules = RuleStore(backend, ADMIN_RULES, admin_rule_message, owners=False)

    async def Create(self, request: admin_pb.CreateRequest, _context: object) -> admin_pb.CreateResponse:  # noqa: N802
        wanted = await self._wanted(request.rule)
        return admin_pb.CreateResponse(rule=await self._rules.create(wanted, namespace=SYSTEM_NAMESPACE))

    async def Get(self, request: admin_pb.GetRequest, _context: object) -> admin_pb.GetResponse:  # noqa: N802
        found = await self._rules.get(checked_id(request.id), namespace=SYSTEM_NAMESPACE)
        return admin_pb.GetResponse(rule=found)

    async def List(self, _request: admin_pb.ListRequest, _context: object) -> admin_pb.ListResponse:  # noqa: N802
        return admin_pb.ListResponse(rules=await self._rules.messages(namespace=SYSTEM_NAMESPACE))

    async def Update(self, request: admin_pb.UpdateRequest, _context: object) -> admin_pb.UpdateResponse:  # noqa: N802
        wanted = await self._wanted(request.rule)
        return admin_pb.UpdateResponse(rule=await self._rules.put(wanted, namespace=SYSTEM_NAMESPACE))

    async def Delete(self, request: admin_pb.DeleteRequest, _context: object) -> admin_pb.DeleteResponse:  # noqa: N802
        await self._rules.delete(checked_id(request.id), namespace=SYSTEM_NAMESPACE)
        return admin_pb.DeleteResponse()

    async def _wanted(self, rule: admin_pb.AdminWorkloadRule) -> Wanted:
        """Checked, and not too much beside the rules that there are; these are few, and seldom written."""
        wanted = await _read(self._backend, rule, lambda: admin_wanted_of(rule))
        found = await self._rules.objects(namespace=SYSTEM_NAMESPACE)
        refuse_beyond(
            wanted.name, wanted.keys, {obj["metadata"]["name"]: keys_of(obj.get("spec") or {}) for obj in found}
        )
        return wanted


async def _read(
    backend: Backend, rule: pb.WorkloadRule | admin_pb.AdminWorkloadRule, work: Callable[[], Wanted]
) -> Wanted:
    size, limit = rule.ByteSize(), backend.limits.rule_bytes
    if size > limit:
        raise invalid([f"rule: {size} bytes: a rule has at most {limit}"])
    return await backend.readers.read(work, size=size, tenant=label_of_call())
