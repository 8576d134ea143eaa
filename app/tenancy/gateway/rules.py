"""The services of rules: a tenant's own, and the cloud admin's over several tenants.

Each request is checked wholly before anything is stored; all problems come back in one message. A stored rule is
written only where something differs, so that its generation changes with its spec only.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from app.kube.resources import Resource
from app.tenancy.gateway.caches import keys_of
from app.tenancy.gateway.confining import Confinement
from app.tenancy.gateway.failures import Code, Refused, check_keeper, checked_name, creating, invalid, namespace_needed
from app.tenancy.gateway.quotas import refuse_beyond
from app.tenancy.gateway.reading import field_of
from app.tenancy.gateway.service import Service, follow
from app.tenancy.messages import (
    API_OWNER,
    MessageError,
    admin_rule_message,
    canonical,
    owner_problems,
    rule_message,
    spec_of_data,
)
from app.tenancy.proto import admin_pb, rule_pb
from app.wire import JSON
from app.workloads.model import ADMIN_RULES, RULE_GENERATION, RULE_OWNER, SYSTEM_NAMESPACE, TENANT_RULES, tenant_name
from app.workloads.rules.problems import name_problems, rule_problems

_PATH = "rule.data"


class _RuleService(Service, ABC):
    """The methods that both services have. With `_owners`, only the owner of a rule may change it."""

    _resource: Resource
    _message: Callable[[JSON], Message]
    _methods: Mapping[str, MethodDescriptor]
    _owners: bool

    async def Create(self, request: Any, _context: object) -> Message:  # noqa: N802
        return self._answer("Create", rule=await self._write(request.rule, self._create))

    async def Get(self, request: Any, _context: object) -> Message:  # noqa: N802
        name = checked_name(request.id, "id")
        async with self._turn():
            return self._answer("Get", rule=self._message(await self._found(name)))

    async def List(self, _request: Any, _context: object) -> bytes:  # noqa: N802
        entry = field_of(GetMessageClass(self._methods["List"].output_type), "rules")
        return await self._listed(self._resource, self._message, entry, hint="get each by its id")

    async def Update(self, request: Any, _context: object) -> Message:  # noqa: N802
        """Create the rule, or make it what is wanted; FAILED_PRECONDITION where it has another owner."""
        return self._answer("Update", rule=await self._write(request.rule, self._put))

    async def Delete(self, request: Any, _context: object) -> Message:  # noqa: N802
        """FAILED_PRECONDITION for a rule that is not kept through this service."""
        name = checked_name(request.id, "id")
        async with self._turn():
            rule = await self._found(name)
            if self._owners and not _owner(rule):
                raise Refused(Code.FAILED_PRECONDITION, f"rule {name!r} was not made by this service")
            await self._delete(self._resource, rule)
        return self._answer("Delete")

    @abstractmethod
    def _room(self, rule: _Wanted) -> contextlib.AbstractAsyncContextManager[None]:
        """Around the write of a rule; FAILED_PRECONDITION where it is too much beside the others."""

    def _answer(self, method: str, **fields: Any) -> Message:
        return GetMessageClass(self._methods[method].output_type)(**fields)

    async def _write(self, rule: Any, write: Callable[[_Wanted], Awaitable[JSON]]) -> Message:
        size, limit = rule.ByteSize(), self._backend.limits.rule_bytes
        if size > limit:
            raise invalid([f"rule: {size} bytes: a rule has at most {limit}"])
        confinement = Confinement(tenant_name(self._namespace) if self._owners else "", self._backend.placement)
        checked = await self._read(lambda: _wanted_of(rule, confinement), size=size)
        async with self._room(checked), self._turn():
            with creating("rule", checked.name):
                return self._message(await write(checked))

    async def _found(self, name: str) -> JSON:
        rule = await self._find(self._resource, name)
        if rule is None:
            raise Refused(Code.NOT_FOUND, f"there is no rule {name!r}")
        return rule

    async def _create(self, rule: _Wanted) -> JSON:
        namespace = self._namespace
        metadata = {"name": rule.name, "namespace": namespace} | _marks(rule, {})
        self._storing.write(namespace, len(canonical(rule.spec)))
        with namespace_needed(namespace):
            body = self._resource.body(metadata, spec=rule.spec)
            return await self._client.create(self._resource, body, namespace=namespace)

    async def _put(self, wanted: _Wanted) -> JSON:
        async def attempt() -> JSON:
            rule = await self._find(self._resource, wanted.name)
            return await (self._create(wanted) if rule is None else self._equal(rule, wanted))

        return await self._until_written(attempt)

    async def _equal(self, stored: JSON, rule: _Wanted) -> JSON:
        metadata = stored["metadata"]
        keeper = _owner(stored) if self._owners else rule.owner
        check_keeper(stored, f"rule {rule.name!r}", keeper=keeper, owner=rule.owner)
        marks, content = _marks(rule, metadata), canonical(rule.spec)
        if canonical(stored.get("spec")) == content and all(metadata.get(part) == marks[part] for part in marks):
            return stored
        self._storing.write(self._namespace, len(content))
        body = {**stored, "metadata": {**metadata, **marks}, "spec": rule.spec}
        return await self._client.replace(self._resource, rule.name, body, namespace=self._namespace)


class WorkloadRuleService(_RuleService):
    """The rules of the calling tenant, in its namespace."""

    _resource, _message, _owners = TENANT_RULES, staticmethod(rule_message), True
    _methods = rule_pb.DESCRIPTOR.services_by_name["WorkloadRuleService"].methods_by_name

    async def Delete(self, request: Any, context: object) -> Message:  # noqa: N802
        answer = await super().Delete(request, context)
        self._backend.rule_quota.deleted(self._namespace, request.id)
        return answer

    def Watch(self, _request: object, _context: object) -> AsyncGenerator[bytes, None]:  # noqa: N802
        answer = rule_pb.WatchWorkloadRulesResponse
        return follow(self._backend.sources.rules, namespace=self._namespace, answer=answer, item="rule")

    @contextlib.asynccontextmanager
    async def _room(self, rule: _Wanted) -> AsyncGenerator[None, None]:
        with self._backend.rule_quota.room(self._namespace, rule.name, keys_of(rule.spec)):
            yield


class AdminWorkloadRuleService(_RuleService):
    """The cloud admin's rules, in the system namespace of the infra cluster."""

    _resource, _message, _owners = ADMIN_RULES, staticmethod(admin_rule_message), False
    _methods = admin_pb.DESCRIPTOR.services_by_name["AdminWorkloadRuleService"].methods_by_name
    _namespace = SYSTEM_NAMESPACE

    @contextlib.asynccontextmanager
    async def _room(self, rule: _Wanted) -> AsyncGenerator[None, None]:
        """Counts all that are stored: these are few, and seldom written."""
        keys = {obj["metadata"]["name"]: keys_of(obj.get("spec") or {}) async for obj in self._objects(ADMIN_RULES)}
        refuse_beyond(rule.name, keys_of(rule.spec), keys)
        yield


def _marks(rule: _Wanted, metadata: JSON) -> JSON:
    """The labels and annotations that say who keeps the rule and what it was made from; others' stay."""
    marks: JSON = {"labels": {**(metadata.get("labels") or {}), RULE_OWNER: rule.owner}}
    if rule.generation:
        marks["annotations"] = {**(metadata.get("annotations") or {}), RULE_GENERATION: str(rule.generation)}
    return marks


def _owner(obj: JSON) -> str:
    return str((obj["metadata"].get("labels") or {}).get(RULE_OWNER) or "")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A rule to be stored; `owner` keeps it, `generation` is that of the object it was made from (0: none)."""

    name: str
    spec: JSON
    owner: str
    generation: int


def _wanted_of(rule: rule_pb.WorkloadRule | admin_pb.AdminWorkloadRule, confinement: Confinement) -> _Wanted:
    """What is to be stored of a rule; raises INVALID_ARGUMENT with every problem, also where it cannot be confined."""
    problems: list[str] = []
    extra, owner, generation = {}, "", 0
    if trusted := isinstance(rule, admin_pb.AdminWorkloadRule):
        extra = {"tenantMatch": list(rule.tenant_match)}
    else:
        owner, generation = rule.owner, rule.generation
        problems += owner_problems(owner, "rule.owner")
        if generation < 0:
            problems.append("rule.generation: must not be negative")
    problems += name_problems(rule.id, "rule.id")
    try:
        spec = spec_of_data(rule.data, path=_PATH) | extra
    except MessageError as error:
        raise invalid([*problems, *error.problems]) from error
    problems += rule_problems(spec, kind="admin" if trusted else "tenant", path=_PATH)
    problems += confinement.template_problems(spec["template"], f"{_PATH}.rule_template", trusted=trusted)
    if problems:
        raise invalid(problems)
    return _Wanted(rule.id, spec, owner or API_OWNER, generation)
