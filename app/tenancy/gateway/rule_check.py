"""From the message of a rule to what is stored; INVALID_ARGUMENT with all that is wrong with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.placement.model import PlacementOptions
from app.placement.plan import contradictions, requirements
from app.tenancy.gateway.failures import invalid
from app.tenancy.gateway.service import API_OWNER, owner_problems
from app.tenancy.gateway.views import Keys, keys_of
from app.tenancy.messages import MessageError, spec_of_data
from app.tenancy.proto import admin_pb, rule_pb
from app.wire import JSON
from app.workloads.rules.problems import name_problems, rule_problems
from app.workloads.templates.problems import template_problems

_PATH = "rule.data"
_TEMPLATE = f"{_PATH}.rule_template"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A rule to be stored; `owner` keeps it, `generation` is that of the object it was made from (0: none)."""

    name: str
    spec: JSON
    owner: str
    generation: int

    @property
    def keys(self) -> Keys:
        return keys_of({"spec": self.spec})


def wanted_of(
    rule: rule_pb.WorkloadRule | admin_pb.AdminWorkloadRule, tenant: str, placement: PlacementOptions
) -> Wanted:
    """The companions of a tenant's rule run on the tenant's DPUs alone: a template that cannot is refused.

    `tenant` is its name, "" for the cloud admin's rules.
    """
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
    template = spec["template"]
    wrong = template_problems(template, trusted=trusted, path=_TEMPLATE, policy=placement.policy)
    wanted = requirements(host=None, tenant=tenant, options=placement)
    problems += wrong or contradictions(template["spec"], wanted, f"{_TEMPLATE}.spec")
    if problems:
        raise invalid(problems)
    return Wanted(rule.id, spec, owner or API_OWNER, generation)
