"""The services of rules: a tenant's own, and the cloud admin's over several tenants.

Each request is checked wholly before anything is stored; all problems come back in one message.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from app.kube.client import KubeClient
from app.kube.names import check_label_value
from app.kube.store import Store
from app.kube.turns import Turns
from app.placement.model import PlacementOptions, Requirement
from app.placement.plan import contradictions
from app.placement.policy import TenantPolicy
from app.tenancy.gateway.admitting import label_of_call, tenant_of_call
from app.tenancy.gateway.confining import confinement
from app.tenancy.gateway.failures import invalid
from app.tenancy.gateway.feed import Gone, Synced, follow
from app.tenancy.gateway.options import Limits
from app.tenancy.gateway.reading import Readers
from app.tenancy.gateway.receiving import Context
from app.tenancy.gateway.rulequota import RuleQuota, keys_of, refuse_beyond
from app.tenancy.gateway.rulestore import RuleStore, Wanted
from app.tenancy.gateway.storing import Storing
from app.tenancy.gateway.views import View
from app.tenancy.messages import MessageError, admin_rule_message, rule_message, spec_of_data
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2 as admin_pb
from app.tenancy.proto.universe.admin.workload.v1 import admin_workload_rule_pb2_grpc as admin_grpc
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2_grpc as pb_grpc
from app.wire import JSON
from app.workloads.model import ADMIN_RULES, SYSTEM_NAMESPACE, TENANT_RULES, RuleKind
from app.workloads.rules.problems import rule_problems
from app.workloads.templates.problems import name_problems, template_problems

API_OWNER = "api"
"""Who keeps what was made without naming an owner."""
_PATH = "rule.data"


class WorkloadRuleService(pb_grpc.WorkloadRuleServiceServicer):
    """The rules of the calling tenant, in its namespace; `workloads` says how many there are in one."""

    def __init__(
        self,
        client: KubeClient,
        views: Store[View],
        turns: Turns,
        storing: Storing,
        readers: Readers,
        *,
        workloads: Callable[[str], int],
        limits: Limits,
        placement: PlacementOptions,
    ) -> None:
        self._views = views
        self._placement = placement
        self._check = _Check(limits, readers)
        self._rules = RuleStore(client, TENANT_RULES, turns, storing, owners=True, message_bytes=limits.message_bytes)
        self._quota = RuleQuota(views, workloads=workloads, pairs=limits.pairs)

    async def Create(self, request: pb.CreateWorkloadRuleRequest, _context: Context) -> pb.CreateWorkloadRuleResponse:  # noqa: N802
        namespace = tenant_of_call().namespace
        wanted = await self._check.tenants(request.rule, namespace, self._placement)
        with self._quota.room(namespace, wanted.name, keys_of(wanted.spec)):
            obj = await self._rules.create(wanted, namespace=namespace)
        return pb.CreateWorkloadRuleResponse(rule=rule_message(obj))

    async def Get(self, request: pb.GetWorkloadRuleRequest, _context: Context) -> pb.GetWorkloadRuleResponse:  # noqa: N802
        obj = await self._rules.get(_checked(request.id), namespace=tenant_of_call().namespace)
        return pb.GetWorkloadRuleResponse(rule=rule_message(obj))

    async def List(self, _request: pb.ListWorkloadRulesRequest, _context: Context) -> pb.ListWorkloadRulesResponse:  # noqa: N802
        found = await self._rules.messages(rule_message, namespace=tenant_of_call().namespace)
        return pb.ListWorkloadRulesResponse(rules=found)

    async def Update(self, request: pb.UpdateWorkloadRuleRequest, _context: Context) -> pb.UpdateWorkloadRuleResponse:  # noqa: N802
        namespace = tenant_of_call().namespace
        wanted = await self._check.tenants(request.rule, namespace, self._placement)
        with self._quota.room(namespace, wanted.name, keys_of(wanted.spec)):
            obj = await self._rules.put(wanted, namespace=namespace)
        return pb.UpdateWorkloadRuleResponse(rule=rule_message(obj))

    async def Delete(self, request: pb.DeleteWorkloadRuleRequest, _context: Context) -> pb.DeleteWorkloadRuleResponse:  # noqa: N802
        namespace = tenant_of_call().namespace
        await self._rules.delete(_checked(request.id), namespace=namespace)
        self._quota.deleted(namespace, request.id)
        return pb.DeleteWorkloadRuleResponse()

    async def Watch(  # noqa: N802
        self, _request: pb.WatchWorkloadRulesRequest, _context: Context
    ) -> AsyncGenerator[pb.WatchWorkloadRulesResponse, None]:
        async for change in follow(self._views, namespace=tenant_of_call().namespace):
            if isinstance(change, Synced):
                yield pb.WatchWorkloadRulesResponse(synced=True)
            elif isinstance(change, Gone):
                yield pb.WatchWorkloadRulesResponse(deleted=change.name)
            else:
                yield pb.WatchWorkloadRulesResponse(rule=pb.WorkloadRule.FromString(change.message))


class AdminWorkloadRuleService(admin_grpc.AdminWorkloadRuleServiceServicer):
    """The cloud admin's rules, in the system namespace of the infra cluster."""

    def __init__(self, client: KubeClient, turns: Turns, storing: Storing, readers: Readers, *, limits: Limits) -> None:
        self._check = _Check(limits, readers)
        self._rules = RuleStore(client, ADMIN_RULES, turns, storing, owners=False, message_bytes=limits.message_bytes)

    async def Create(self, request: admin_pb.CreateRequest, _context: Context) -> admin_pb.CreateResponse:  # noqa: N802
        obj = await self._rules.create(await self._judged(request.rule), namespace=SYSTEM_NAMESPACE)
        return admin_pb.CreateResponse(rule=admin_rule_message(obj))

    async def Get(self, request: admin_pb.GetRequest, _context: Context) -> admin_pb.GetResponse:  # noqa: N802
        obj = await self._rules.get(_checked(request.id), namespace=SYSTEM_NAMESPACE)
        return admin_pb.GetResponse(rule=admin_rule_message(obj))

    async def List(self, _request: admin_pb.ListRequest, _context: Context) -> admin_pb.ListResponse:  # noqa: N802
        found = await self._rules.messages(admin_rule_message, namespace=SYSTEM_NAMESPACE)
        return admin_pb.ListResponse(rules=found)

    async def Update(self, request: admin_pb.UpdateRequest, _context: Context) -> admin_pb.UpdateResponse:  # noqa: N802
        obj = await self._rules.put(await self._judged(request.rule), namespace=SYSTEM_NAMESPACE)
        return admin_pb.UpdateResponse(rule=admin_rule_message(obj))

    async def Delete(self, request: admin_pb.DeleteRequest, _context: Context) -> admin_pb.DeleteResponse:  # noqa: N802
        await self._rules.delete(_checked(request.id), namespace=SYSTEM_NAMESPACE)
        return admin_pb.DeleteResponse()

    async def _judged(self, rule: admin_pb.AdminWorkloadRule) -> Wanted:
        """Checked, and not too much beside the rules that there are; these are few, and seldom written."""
        wanted = await self._check.admins(rule)
        found = await self._rules.all(namespace=SYSTEM_NAMESPACE)
        rules = {obj["metadata"]["name"]: keys_of(obj.get("spec") or {}) for obj in found}
        refuse_beyond(wanted.name, keys_of(wanted.spec), rules)
        return wanted


class _Check:
    """From the message of a rule to what is stored; INVALID_ARGUMENT with all that is wrong with it."""

    def __init__(self, limits: Limits, readers: Readers) -> None:
        self._limit = limits.rule_bytes
        self._readers = readers

    async def tenants(self, rule: pb.WorkloadRule, namespace: str, placement: PlacementOptions) -> Wanted:
        def work() -> Wanted:
            return _wanted(rule, confinement(namespace, placement), placement.policy)

        return await self._readers.read(work, size=self._size(rule), tenant=label_of_call())

    async def admins(self, rule: admin_pb.AdminWorkloadRule) -> Wanted:
        return await self._readers.read(lambda: _admin_wanted(rule), size=self._size(rule), tenant=label_of_call())

    def _size(self, rule: pb.WorkloadRule | admin_pb.AdminWorkloadRule) -> int:
        size = rule.ByteSize()
        if size > self._limit:
            raise invalid([f"rule: {size} bytes: a rule has at most {self._limit}"])
        return size


def _wanted(rule: pb.WorkloadRule, places: tuple[Requirement, ...], policy: TenantPolicy) -> Wanted:
    problems = owner_problems(rule.owner, "rule.owner")
    if rule.generation < 0:
        problems.append("rule.generation: must not be negative")
    spec = _spec(rule.id, rule.data, {}, kind="tenant", problems=problems, places=places, policy=policy)
    return Wanted(rule.id, spec, owner=rule.owner or API_OWNER, generation=rule.generation)


def _admin_wanted(rule: admin_pb.AdminWorkloadRule) -> Wanted:
    extra = {"tenantMatch": list(rule.tenant_match)}
    return Wanted(rule.id, _spec(rule.id, rule.data, extra, kind="admin", problems=[]), owner=API_OWNER)


def _spec(
    name: str,
    data: pb.WorkloadRuleData,
    extra: JSON,
    *,
    kind: RuleKind,
    problems: list[str],
    places: tuple[Requirement, ...] = (),
    policy: TenantPolicy | None = None,
) -> JSON:
    """The spec of a good rule; INVALID_ARGUMENT with all that is wrong with it, `problems` included.

    Companions run in these `places` alone, so a template that contradicts them is refused here. `policy`
    says what a tenant's template may ask for.
    """
    found = [*problems, *name_problems(name, "rule.id")]
    try:
        spec = spec_of_data(data, path=_PATH) | extra
    except MessageError as error:
        raise invalid([*found, *error.problems]) from error
    found += rule_problems(spec, kind=kind, path=_PATH)
    template, path = spec["template"], f"{_PATH}.rule_template"
    wrong = template_problems(template, trusted=kind == "admin", path=path, policy=policy or TenantPolicy())
    found += wrong or contradictions(template["spec"], places, f"{path}.spec")
    if found:
        raise invalid(found)
    return spec


def _checked(name: str) -> str:
    """A name that may stand in a path; INVALID_ARGUMENT for any other."""
    if problems := name_problems(name, "id"):
        raise invalid(problems)
    return name


def owner_problems(owner: str, path: str) -> list[str]:
    """Why this cannot be the owner of something: it becomes the value of a label."""
    try:
        check_label_value(owner)
    except ValueError as error:
        return [f"{path}: {error}"]
    return []
