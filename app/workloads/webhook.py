"""Checks rules and the tenants' objects when they are written, so that what could only fail later is refused at once.

Owns when a check applies (creation, and changes of what is asked for) and how findings are reported; what is wrong is
found by `validation`. Runs in the tenant cluster (WorkloadRule, UVS*) and in the infra cluster
(TenantWorkloadRule, AdminWorkloadRule) alike.
"""

from __future__ import annotations

from app.admission.chain import Plan, refuse
from app.admission.parts import Context, Parts
from app.admission.review import Request, old_object, written_object
from app.placement.model import tenant_of
from app.placement.policy import TenantPolicy
from app.placement.settings import ConfinementSettings
from app.settings.source import settings_as
from app.wire import JSON
from app.workloads.model import MIRROR, RULE_NAME, UVS_PODS
from app.workloads.templates.marks import at, member
from app.workloads.tenant_pods import TenantPodCheck
from app.workloads.validation import OBJECTS, RULES, problems, warnings


class RuleCheck:
    """Refuses rules and tenants' objects that could only fail later; neutral to everything else.

    Left alone: status, objects that are being deleted, mirrors (Berth writes them, and they show Pods as they are),
    and changes that leave the spec as it was, so that an object from before a check can still be labeled or released.
    """

    def __init__(self, policy: TenantPolicy | None = None) -> None:
        self._policy = policy or TenantPolicy()

    def check(self, request: Request, plan: Plan) -> None:
        """Raise Denied with every problem ("InvalidRule", "InvalidObject"); warn of what is legal but surprising."""
        kind = (request.kind.group, request.kind.kind)
        if kind not in RULES and kind not in OBJECTS:
            return
        reason = "InvalidRule" if kind in RULES else "InvalidObject"
        obj = written_object(request, reason=reason)
        if obj is None:
            return
        old = old_object(request, reason=reason)
        if old is not None and _unchanged(obj, old):
            return
        if kind == (UVS_PODS.group, UVS_PODS.kind):
            if _is_mirror(obj):
                if not _names_rule(obj):
                    text = "marks what Berth shows of the infra cluster; nothing is created for it there"
                    plan.warnings.append(f"metadata.labels[{MIRROR}]: {text}")
                return
            # What Berth has made to show a companion; a mark by hand names no rule.
            if old is not None and _is_mirror(old) and _names_rule(old):
                message = f"metadata.labels: this is a mirror of a companion: leave the label {MIRROR}"
                refuse([message], reason=reason)
        refuse(problems(obj, kind, self._policy), reason=reason)
        plan.warnings += warnings(obj, kind, created_in=request.namespace if request.operation == "CREATE" else "")


def _unchanged(obj: JSON, old: JSON) -> bool:
    """Whether an update asks for nothing new. An update that removes the mark from a mirror asks for its Pod."""
    return bool(old.get("spec") == obj.get("spec")) and _is_mirror(obj) >= _is_mirror(old)


def _is_mirror(obj: JSON) -> bool:
    labels = at(obj, "metadata.labels")
    return isinstance(labels, dict) and MIRROR in labels


def _names_rule(obj: JSON) -> bool:
    return bool(member(at(obj, "metadata.annotations"), RULE_NAME))


def review(context: Context) -> Parts:
    settings = settings_as(context.settings, ConfinementSettings)
    policy = settings.placement.policy
    tenants = context.caches.namespaces(tenant_of) if settings.confine_tenants else None
    return Parts(checks=(RuleCheck(policy), TenantPodCheck(tenants, policy)))
