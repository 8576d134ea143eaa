"""What a role has to be allowed, and what it must not be, as questions to an API server. Pure.

What it has to be allowed is `app.permissions`; what it must not be are powers that none of Berth's roles needs and that
would make a stolen token of it the cluster's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.doctor.deployed_settings import deployed
from app.doctor.installed import Installed
from app.kube.resources import MUTATING_WEBHOOKS, NETWORK_ATTACHMENTS
from app.permissions import permissions_of
from app.registry import BY_NAME
from app.wire import JSON
from app.wiring import Permission

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


def needed_by(role: str, running: Installed | None, *, release: str, gateway_here: bool) -> tuple[Permission, ...]:
    """What the role needs as it was told to run; `running` is its Deployment, where that is known."""
    given: dict[str, object] = {"configuration": (release,), "gateway": gateway_here} if role == "certificates" else {}
    return permissions_of(role, **(given | ({} if running is None else deployed(running))))


def needed(permission: Permission, *, namespace: str) -> Iterator[Question]:
    """The questions of a permission, in this namespace ("" for a permission in the whole cluster)."""
    for resource in permission.resources:
        for verb in permission.verbs:
            for name in permission.names or ("",):
                yield Question(verb, permission.group, resource, namespace, name)


def excessive(role: str, permissions: Iterable[Permission], *, namespace: str) -> list[Question]:
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


def consequence(role: str, resource: str) -> str:
    """What breaks where the role may not do what it needs with the resource."""
    if resource == "events":
        return "denials and broken rules leave no Event where their owners look"
    refused = BY_NAME[role].when_refused
    return refused.get(resource.partition("/")[0]) or refused[""]
