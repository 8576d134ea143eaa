"""Checks Tenants when they are written: what could only fail later is refused, all of it in one message.

It looks at the object alone. That no two tenants share a name or a host is the controller's to find, for two writes
may cross.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.admission.chain import MutationPlan, refuse
from app.admission.parts import Context, Parts
from app.admission.review import Request, written_object
from app.settings.source import settings_as
from app.tenancy.model import ADMIN_NAME, MOST_NAMES, tenant_problems
from app.tenancy.settings import AdminSettings
from app.workloads.model import TENANTS


class TenantCheck:
    """Refuses broken Tenants on CREATE and UPDATE; neutral to everything else.

    `admin_names` are the names of the cloud admin's certificates, which no tenant may have. A Tenant that is being
    deleted is left alone, so that finalizers can be removed.
    """

    def __init__(self, admin_names: Sequence[str] = (ADMIN_NAME,)) -> None:
        self._admin_names = frozenset(name.lower() for name in admin_names)

    def check(self, request: Request, _plan: MutationPlan) -> None:
        """Raise Denied with every problem of the Tenant, each line beginning with the field's path."""
        kind = request.kind
        if (kind.group, kind.kind) != (TENANTS.group, TENANTS.kind):
            return
        obj = written_object(request, reason="UnreadableTenant")
        if obj is None:
            return
        problems = tenant_problems(obj)
        spec = obj.get("spec")
        identity = spec.get("identity") if isinstance(spec, dict) else None
        names = identity.get("names") if isinstance(identity, dict) else None
        for index, name in enumerate(names[:MOST_NAMES] if isinstance(names, list) else ()):
            # Verifiers compare DNS names without regard to case, so must this.
            if isinstance(name, str) and name.lower() in self._admin_names:
                problems.append(f"spec.identity.names[{index}]: {name!r} is the cloud admin's name")
        refuse(problems, reason="BrokenTenant")


def review(context: Context) -> Parts:
    """The check of Tenants."""
    return Parts(checks=(TenantCheck(settings_as(context.settings, AdminSettings).admin_names),))
