"""What a role may do: access reviews for the role's ServiceAccount, and which accounts these are.

What a role has to be allowed is `app.permissions`; what it must not be are powers that none of Berth's roles needs and
that would make a stolen token of it the cluster's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.doctor.cluster import Cluster
from app.doctor.model import or_default
from app.doctor.objects import BY_CHART, COMPONENT, PART_OF, labels
from app.kube.names import service_account_groups, service_account_user
from app.kube.resources import MUTATING_WEBHOOKS, NETWORK_ATTACHMENTS, SERVICE_ACCOUNTS
from app.permissions import permissions_of
from app.permissions import places as scope_places
from app.registry import BY_NAME, CONTROLLER, WINGS
from app.wire import JSON
from app.wiring import Permission, Scope, resolve

if TYPE_CHECKING:
    from app.kube.client import KubeClient

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_AT_ONCE = 8
_RBAC = "rbac.authorization.k8s.io"
_CHANGES = ("create", "update", "patch", "delete")
_Rights = tuple[tuple[tuple[str, ...], str, str, tuple[str, ...]], ...]
"""Verbs, group and resource; and the roles that must not have them, none where no role must."""
_DANGEROUS: _Rights = (
    (("get", "list", "watch", *_CHANGES), "", "secrets", ()),
    (("create",), "", "pods/exec", ()),
    (("impersonate",), "", "serviceaccounts", ()),
    (("create",), "", "serviceaccounts/token", ()),
    (("escalate", "bind", "create"), _RBAC, "clusterroles", ()),
    (("create",), _RBAC, "clusterrolebindings", ()),
    (("create",), _RBAC, "rolebindings", ()),
    (("create",), MUTATING_WEBHOOKS.group, MUTATING_WEBHOOKS.plural, ()),
)
_DANGEROUS_TO_SOME: _Rights = (
    (_CHANGES, "", "pods", ("webhook", "agent", "certificates")),
    (("update", "patch"), "", "nodes", ("webhook", "agent", "certificates")),
    (_CHANGES, "", "configmaps", ("webhook",)),
    (_CHANGES, NETWORK_ATTACHMENTS.group, NETWORK_ATTACHMENTS.plural, ("webhook",)),
    (_CHANGES, MUTATING_WEBHOOKS.group, MUTATING_WEBHOOKS.plural, ("webhook",)),
)


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
        plural, slash, sub = self.resource.partition("/")
        return f"{plural}.{self.group}{slash}{sub}" if self.group else self.resource

    @property
    def attributes(self) -> dict[str, str]:
        """As an access review has them."""
        plural, _, sub = self.resource.partition("/")
        named = {"verb": self.verb, "group": self.group, "resource": plural, "subresource": sub}
        named |= {"namespace": self.namespace, "name": self.name}
        return {key: value for key, value in named.items() if value}


EVERYTHING = Question("*", "*", "*")


@dataclass(frozen=True, slots=True)
class Account:
    """The ServiceAccount of a role, and what it needs; `by_chart` is whether the chart keeps its rights.

    `places` are the namespaces of scopes.
    """

    role: str
    namespace: str
    name: str
    by_chart: bool = False
    permissions: tuple[Permission, ...] = ()
    places: Mapping[Scope, str] = field(default_factory=dict, compare=False)

    @property
    def user(self) -> str:
        return service_account_user(self.namespace, self.name)

    @property
    def groups(self) -> list[str]:
        """The groups that the API server gives to its requests."""
        return [*service_account_groups(self.namespace), "system:authenticated"]

    def is_among(self, subjects: Iterable[JSON]) -> bool:
        """Whether the subjects of a binding name it."""
        own = ("ServiceAccount", self.name, self.namespace)
        return any((subject.get("kind"), subject.get("name"), subject.get("namespace")) == own for subject in subjects)

    @property
    def subject(self) -> str:
        return f"ServiceAccount {self.namespace}/{self.name}"

    @property
    def acts_for_tenants(self) -> bool:
        return any(permission.scope == "tenants" for permission in self.permissions)

    def needed(self, *, tenant: str = "") -> Iterator[Question]:
        """What it has to be allowed: in a namespace of a tenant, or everywhere else."""
        where: Mapping[Scope, str] = {"tenants": tenant} if tenant else self.places
        for permission in self.permissions:
            for resource in permission.resources if permission.scope in where else ():
                for verb in permission.verbs:
                    for name in permission.names or ("",):
                        yield Question(verb, permission.group, resource, where[permission.scope], name)

    def excessive(self) -> list[Question]:
        own = [Question(verb, "", "secrets", self.namespace) for verb in ("get", "list") if self.role != "certificates"]
        held = [
            (("*",), permission.group, resource, ())
            for permission in self.permissions
            for resource in permission.resources
        ]
        questions = [
            Question(verb, group, resource)
            for verbs, group, resource, roles in (*_DANGEROUS, *held, *_DANGEROUS_TO_SOME)
            for verb in (verbs if not roles or self.role in roles else ())
        ]
        needed = {
            (verb, permission.group, resource)
            for permission in self.permissions
            if permission.scope == "cluster" and not permission.names
            for verb in permission.verbs
            for resource in permission.resources
        }
        return [
            question
            for question in dict.fromkeys(own + questions)
            if (question.verb, question.group, question.resource) not in needed
        ]

    def without(self, resource: str) -> str:
        """What breaks where it may not do what it needs with the resource."""
        if resource == "events":
            return "denials and broken rules leave no Event where their owners look"
        refused = BY_NAME[self.role].when_refused
        return refused.get(resource.partition("/")[0]) or refused[""]


async def accounts_of(cluster: Cluster) -> list[Account]:
    """One for each role that is installed: of its Deployment, else by the chart's labels, else by name."""
    running = {deployment.role: deployment for deployment in await cluster.installed()}
    places = {role: (deployment.namespace, deployment.service_account) for role, deployment in running.items()}
    charted = {role for role, deployment in running.items() if deployment.by_chart}
    async for account, roles in _found(cluster):
        name, own, home = account["metadata"]["name"], labels(account), account["metadata"]["namespace"]
        for role in (role for role in roles if role not in places):
            labeled = own.get(PART_OF) == "berth" and own.get(COMPONENT) == role
            if labeled or name in (f"berth-{role}", f"{cluster.release}-{role}"):
                places[role] = (home, name)
                charted |= {role} if BY_CHART in own else set()
    accounts = []
    for role in (role for role in BY_NAME if role in places):
        by_chart, deployed = role in charted, running[role].deployed if role in running else {}
        permissions = needed_by(role, deployed, release=cluster.release, gateway_here="gateway" in places)
        scopes = scope_places(release=places[role][0], settings=deployed)
        accounts.append(Account(role, *places[role], by_chart, permissions, scopes))
    return accounts


async def _found(cluster: Cluster) -> AsyncIterator[tuple[JSON, Iterable[str]]]:
    """ServiceAccounts with the roles that they may be of: beside Berth, and where controllers install roles."""
    for account in await cluster.listed(SERVICE_ACCOUNTS, namespace=cluster.namespace):
        yield account, BY_NAME
    chosen = await cluster.controllers()
    for wing in (wing for wing in WINGS if any(controller.name in chosen for controller in wing.controllers)):
        for role in (role for role in wing.roles if role.home != "release"):
            settings = await cluster.settings(resolve(wing.settings[CONTROLLER.name]), role=CONTROLLER.name)
            home = scope_places(release=cluster.namespace, settings=settings.model_dump())[role.home]
            for account in await or_default(cluster.listed(SERVICE_ACCOUNTS, namespace=home), []):
                yield account, (role.name,)


def needed_by(role: str, deployed: dict[str, Any], *, release: str, gateway_here: bool) -> tuple[Permission, ...]:
    """What the role needs with the settings that its Deployment gives; {} where that is not known."""
    given = {"configuration": (release,), "gateway": gateway_here} if role == "certificates" else {}
    return permissions_of(role, **(given | deployed))


@dataclass(slots=True)
class Asking:
    """Sends access reviews about an account. Who asks needs no right but to ask."""

    client: KubeClient
    account: Account
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def reason(self, question: Question) -> str | None:
        """Why it is allowed, None where it is not. Raises ApiError."""
        async with self.gate:
            spec = {"user": self.account.user, "groups": self.account.groups, "resourceAttributes": question.attributes}
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
            answer = await self.client.post(_REVIEWS, review)
        status = answer.get("status") or {}
        return str(status.get("reason") or "") if status.get("allowed") else None

    async def reasons(self, questions: Iterable[Question]) -> dict[Question, str | None]:
        """The answers, in the order of the questions."""
        listed = list(questions)
        return dict(zip(listed, await asyncio.gather(*map(self.reason, listed)), strict=True))

    async def refused(self, questions: Iterable[Question]) -> list[Question]:
        return [question for question, reason in (await self.reasons(questions)).items() if reason is None]
