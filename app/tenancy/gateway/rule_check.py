"""From the message of a rule to what is stored; INVALID_ARGUMENT with all that is wrong with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.kube.names import check_label_value
from app.placement.model import PlacementOptions
from app.tenancy.gateway.failures import invalid
from app.tenancy.gateway.manifests import contradictions_in
from app.tenancy.messages import MessageError, spec_of_data
from app.tenancy.proto import admin_pb, rule_pb
from app.wire import JSON
from app.workloads.rules.problems import computed_keys, match_keys, rule_problems
from app.workloads.templates.problems import name_problems, template_problems

API_OWNER = "api"
"""Who keeps what was made without naming an owner."""
_PATH = "rule.data"

Keys = frozenset[str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A rule to be stored; `owner` keeps it, `generation` is that of the object it was made from (0: none)."""

    name: str
    spec: JSON
    owner: str = API_OWNER
    generation: int = 0

    @property
    def keys(self) -> Keys:
        return keys_of(self.spec)


def keys_of(spec: JSON) -> Keys:
    """The keys of a rule's spec that compute, and so count."""
    return computed_keys(match_keys(spec))


def wanted_of(rule: rule_pb.WorkloadRule, namespace: str, placement: PlacementOptions) -> Wanted:
    """Of a tenant's rule. Its companions run on the tenant's DPUs alone: a template that cannot is refused."""
    problems = owner_problems(rule.owner, "rule.owner")
    if rule.generation < 0:
        problems.append("rule.generation: must not be negative")
    spec = _spec(rule.id, rule.data, {}, problems=problems, tenant=(namespace, placement))
    return Wanted(rule.id, spec, owner=rule.owner or API_OWNER, generation=rule.generation)


def admin_wanted_of(rule: admin_pb.AdminWorkloadRule) -> Wanted:
    """Of a rule of the cloud admin."""
    return Wanted(rule.id, _spec(rule.id, rule.data, {"tenantMatch": list(rule.tenant_match)}, problems=[]))


def _spec(
    name: str,
    data: rule_pb.WorkloadRuleData,
    extra: JSON,
    *,
    problems: list[str],
    tenant: tuple[str, PlacementOptions] | None = None,
) -> JSON:
    """`problems` are those found before; `tenant` has its namespace, None for the cloud admin's rules."""
    found = [*problems, *name_problems(name, "rule.id")]
    try:
        spec = spec_of_data(data, path=_PATH) | extra
    except MessageError as error:
        raise invalid([*found, *error.problems]) from error
    found += rule_problems(spec, kind="tenant" if tenant else "admin", path=_PATH)
    template, path = spec["template"], f"{_PATH}.rule_template"
    namespace, placement = tenant or ("", PlacementOptions())
    wrong = template_problems(template, trusted=tenant is None, path=path, policy=placement.policy)
    found += wrong or contradictions_in(template["spec"], namespace, placement, path=f"{path}.spec")
    if found:
        raise invalid(found)
    return spec


def checked_id(name: str) -> str:
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
