"""What users may do with Berth's kinds: ClusterRoles that come with `view`, `edit` and `admin`, and some to be bound.

The chart makes them (`charts/berth/files/roles.json`), and so does the sandbox. They come with a ClusterRole that every
cluster has where that gives no user more than it gave before. Of AppWrappers they are as AppWrapper v1.2 has them. The
objects of Secrets are not for `view`, as Secrets are not. What reaches beyond its namespace is for users to whom an
admin binds the role: rules of the admin run trusted Pods for all tenants, and an RmdWorkload takes cache ways of any
node. Objects that Berth alone writes have no editor, and neither have attachments, which are Multus'. `berth status -n`
and `berth why` read what `view` has.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.appwrappers.model import APP_WRAPPERS
from app.kube.resources import NETWORK_ATTACHMENTS, Resource
from app.rmd.model import RMD_CONFIGS, RMD_NODE_STATES, RMD_WORKLOADS
from app.wiring import READ, Permission
from app.workloads.model import (
    ADMIN_RULES,
    TENANT_RULES,
    UVS_CONFIG_MAPS,
    UVS_DAEMON_SETS,
    UVS_PODS,
    UVS_SECRETS,
    WORKLOAD_RULES,
    WORKLOADS,
)

WRITE = ("create", "delete", "patch", "update")
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
"""How labels begin by which `view`, `edit` and `admin` select ClusterRoles."""
_REQUESTS = (UVS_PODS, UVS_DAEMON_SETS, UVS_CONFIG_MAPS)


@dataclass(frozen=True, slots=True)
class UserRole:
    """A ClusterRole for users; the chart has it where the sources `when` are on. It comes with those of `aggregate`.

    There may be several of one name, of which the chart has one at most.
    """

    name: str
    when: str
    aggregate: tuple[str, ...]
    permissions: tuple[Permission, ...]

    @property
    def labels(self) -> dict[str, str]:
        return {f"{AGGREGATE}{name}": "true" for name in self.aggregate}

    @property
    def kinds(self) -> frozenset[str]:
        """Those that it is about, as PLURAL.GROUP."""
        return frozenset(
            f"{resource}.{permission.group}"
            for permission in self.permissions
            for resource in permission.resources
            if "/" not in resource
        )


def _allows(verbs: tuple[str, ...], *resources: Resource, also: tuple[str, ...] = ()) -> Permission:
    plurals = tuple(resource.plural for resource in resources)
    return Permission("cluster", resources[0].group, (*plurals, *also), verbs)


_READ_WRAPPERS = _allows(READ, APP_WRAPPERS, also=(f"{APP_WRAPPERS.plural}/status",))
_READ_RULES = (_allows(READ, *_REQUESTS), _allows(READ, WORKLOAD_RULES))
_READ_INFRA = _allows(READ, WORKLOADS, TENANT_RULES, ADMIN_RULES)
_READ_RMD = _allows(READ, RMD_WORKLOADS, RMD_NODE_STATES, RMD_CONFIGS)
_READ_ATTACHMENTS = (_allows(READ, NETWORK_ATTACHMENTS),)
_OF_POLICIES = "controller.enabled,controller.args.controllers=policies"
_OF_WRAPPERS = "controller.enabled,controller.args.controllers=appwrappers"
_OF_ADMIN = "controller.enabled,controller.args.controllers=workloads"
_OF_RMD = "controller.enabled,controller.args.controllers=rmd"
_EDITORS = ("admin", "edit")
USER_ROLES = (
    UserRole("attachment-viewer", "webhook.enabled", ("view",), _READ_ATTACHMENTS),
    UserRole("attachment-viewer", f"!webhook.enabled,{_OF_POLICIES}", ("view",), _READ_ATTACHMENTS),
    UserRole("appwrapper-editor", _OF_WRAPPERS, _EDITORS, (_READ_WRAPPERS, _allows(WRITE, APP_WRAPPERS))),
    UserRole("appwrapper-user", _OF_WRAPPERS, (), (_READ_WRAPPERS, _allows(("create", "delete"), APP_WRAPPERS))),
    UserRole("appwrapper-viewer", _OF_WRAPPERS, ("view",), (_READ_WRAPPERS,)),
    UserRole(
        "rule-editor",
        "agent.enabled",
        _EDITORS,
        (
            *_READ_RULES,
            _allows(READ, UVS_SECRETS),
            _allows(WRITE, *_REQUESTS, UVS_SECRETS),
            _allows(WRITE, WORKLOAD_RULES),
        ),
    ),
    UserRole("rule-viewer", "agent.enabled", ("view",), _READ_RULES),
    UserRole("admin-rule-editor", _OF_ADMIN, (), (_READ_INFRA, _allows(WRITE, ADMIN_RULES))),
    UserRole("admin-rule-viewer", _OF_ADMIN, ("view",), (_READ_INFRA,)),
    UserRole("rmd-editor", _OF_RMD, (), (_READ_RMD, _allows(WRITE, RMD_WORKLOADS))),
    UserRole("rmd-viewer", _OF_RMD, ("view",), (_READ_RMD,)),
)
