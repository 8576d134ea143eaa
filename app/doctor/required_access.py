"""What a role has to be allowed, and what it must not be, as questions to an API server. Pure.

What it has to be allowed is `app.permissions`; what it must not be are powers that none of Berth's roles needs and that
would make a stolen token of it the cluster's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.doctor.arguments import flag
from app.doctor.installed import Installed
from app.kube.resources import MUTATING_WEBHOOKS, NETWORK_ATTACHMENTS
from app.permissions import (
    AGENT_LEASE,
    CONTROLLER_LEASE,
    WEBHOOK_SECRET,
    Permission,
    Role,
    agent,
    certificates,
    controller,
    gateway,
    webhook,
)
from app.wire import JSON
from app.workloads.model import SYSTEM_NAMESPACE, TENANTS

_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Question:
    """May it do this? `namespace` "" asks for all of them; `resource` may be `pods/status`; `name` "" for any."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @property
    def what(self) -> str:
        """The resource as kubectl writes it."""
        plural, slash, sub = self.resource.partition("/")
        return f"{plural}.{self.group}{slash}{sub}" if self.group else self.resource

    def review(self) -> JSON:
        """The SelfSubjectAccessReview that asks it."""
        plural, _, sub = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": plural,
            "subresource": sub,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }


def permissions_of(
    role: Role, running: Installed | None, *, release: str, gateway_here: bool
) -> tuple[Permission, ...]:
    """What the role needs as it was told to run; `running` is its Deployment, where that is known."""
    arguments = running.arguments if running is not None else ()
    match role:
        case "webhook":
            return webhook(
                confine_tenants=flag(arguments, "--confine-tenants", switch=True) == "true",
                events=flag(arguments, "--events", switch=True) != "false",
            )
        case "controller":
            return controller()
        case "gateway":
            return gateway()
        case "agent":
            return agent()
    keeps_gateway = flag(arguments, "--gateway", switch=True)
    given = flag(arguments, "--configuration")
    return certificates(
        webhook=flag(arguments, "--webhook-service") != "",
        gateway=gateway_here if keeps_gateway is None else keeps_gateway == "true",
        configurations=(given or release,),
        webhook_secret=flag(arguments, "--webhook-secret") or WEBHOOK_SECRET,
    )


def needed(permission: Permission, *, namespace: str) -> Iterator[Question]:
    """The questions of a permission, in this namespace ("" for a permission in the whole cluster)."""
    for resource in permission.resources:
        for verb in permission.verbs:
            for name in permission.names or ("",):
                yield Question(verb, permission.group, resource, namespace, name)


def excessive(role: Role, permissions: Iterable[Permission], *, namespace: str) -> list[Question]:
    """What the role must not be allowed. `namespace` is that of the release."""
    asked = [
        *(Question(verb, "", "secrets") for verb in ("get", "list", "watch", "create", "update", "patch", "delete")),
        *(Question(verb, "", "secrets", namespace) for verb in ("get", "list") if role != "certificates"),
        Question("create", "", "pods/exec"),
        Question("impersonate", "", "serviceaccounts"),
        Question("create", "", "serviceaccounts/token"),
        Question("escalate", _RBAC, "clusterroles"),
        Question("bind", _RBAC, "clusterroles"),
        *(Question("create", _RBAC, plural) for plural in ("clusterroles", "clusterrolebindings", "rolebindings")),
        Question("create", MUTATING_WEBHOOKS.group, MUTATING_WEBHOOKS.plural),
        *(Question("*", one.group, resource) for one in permissions for resource in one.resources),
    ]
    if role in ("webhook", "agent", "certificates"):
        asked += [Question(verb, "", "pods") for verb in ("create", "update", "patch", "delete")]
        asked += [Question(verb, "", "nodes") for verb in ("update", "patch")]
    if role == "webhook":
        asked += [
            Question(verb, group, plural)
            for group, plural in (
                ("", "configmaps"),
                (NETWORK_ATTACHMENTS.group, NETWORK_ATTACHMENTS.plural),
                (MUTATING_WEBHOOKS.group, MUTATING_WEBHOOKS.plural),
            )
            for verb in ("create", "update", "patch", "delete")
        ]
    wanted = {
        (verb, one.group, resource)
        for one in permissions
        if one.scope == "cluster" and not one.names
        for verb in one.verbs
        for resource in one.resources
    }
    return [one for one in dict.fromkeys(asked) if (one.verb, one.group, one.resource) not in wanted]


EVERYTHING = Question("*", "*", "*")

_BREAKS: Mapping[Role, Mapping[str, str]] = {
    "webhook": {
        NETWORK_ATTACHMENTS.plural: "attachments cannot be read: the webhook does not get ready, and where it runs "
        "already, new attachments stay unknown: Pods that select them are denied",
        "configmaps": "the control switches are not read: the webhook does not get ready",
        "namespaces": "whose a namespace is cannot be told: the webhook gets not ready, and refuses Pods of tenants",
    },
    "controller": {
        "leases": f"no replica can hold Lease {CONTROLLER_LEASE}: none of them works",
        "nodes": "DPU nodes are not labeled for their tenants: companions find no node",
        "namespaces": "new tenants get no namespace",
        "rolebindings": "controller and gateway cannot act in the namespaces of new tenants",
        "clusterroles": "controller and gateway cannot act in the namespaces of new tenants",
        TENANTS.plural: "tenants are not served",
        "": "companions are neither made nor removed, or no status says so",
    },
    "gateway": {
        "pods": "tenants do not see their companions, and their Pods cannot be stored",
        TENANTS.plural: "callers cannot be told apart: all of them are refused",
        "": "calls of tenants and of the admin fail with PermissionDenied or Internal",
    },
    "agent": {
        "leases": f"no replica can hold Lease {AGENT_LEASE}: none of them works",
        "pods": "the infra cluster does not see the tenant's workloads",
        "namespaces": "the cluster cannot be told from another: the gateway refuses the agent",
        "": f"rules and UVS objects of namespace {SYSTEM_NAMESPACE} do not reach the infra cluster, or have no status",
    },
    "certificates": {
        "secrets": "certificates are not renewed: when they expire, every call of the webhook or to the gateway fails",
        "": "a new CA is not written into caBundle: the API server will refuse the webhook's certificate",
    },
}


def consequence(role: Role, resource: str) -> str:
    """What breaks where the role may not do what it needs with the resource."""
    if resource == "events":
        return "denials and broken rules leave no Event where their owners look"
    breaks = _BREAKS[role]
    return breaks.get(resource.partition("/")[0]) or breaks[""]
