"""From the message of a rule to what is stored; INVALID_ARGUMENT with all that is wrong with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.tenancy.gateway.confining import Confinement
from app.tenancy.gateway.failures import invalid
from app.tenancy.messages import API_OWNER, MessageError, owner_problems, spec_of_data
from app.tenancy.proto import admin_pb, rule_pb
from app.wire import JSON
from app.workloads.rules.problems import name_problems, rule_problems

_PATH = "rule.data"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A rule to be stored; `owner` keeps it, `generation` is that of the object it was made from (0: none)."""

    name: str
    spec: JSON
    owner: str
    generation: int


def wanted_of(rule: rule_pb.WorkloadRule | admin_pb.AdminWorkloadRule, confinement: Confinement) -> Wanted:
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
    return Wanted(rule.id, spec, owner or API_OWNER, generation)
