"""Sends access reviews to the API server as the ServiceAccount of a role, and finds these ServiceAccounts.

`questions` defines the reviews; `permissions` judges the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.doctor.cluster import Cluster
from app.doctor.installed import COMPONENT, PART_OF, Installed, installed
from app.doctor.objects import labels
from app.doctor.required_access import Question
from app.kube.resources import SERVICE_ACCOUNTS
from app.registry import BY_NAME

if TYPE_CHECKING:
    from app.kube.transport import AioKubeClient

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Account:
    """The ServiceAccount of a role; `running` is the role's Deployment, where one was found."""

    role: str
    namespace: str
    name: str
    running: Installed | None = None

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def subject(self) -> str:
        return f"ServiceAccount {self.namespace}/{self.name}"


@dataclass(slots=True)
class Asking:
    """Sends access reviews as the client's user; `count` is how many."""

    client: AioKubeClient
    count: int = 0
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def reason(self, question: Question) -> str | None:
        """Why it is allowed, None where it is not. Raises ApiError."""
        async with self.gate:
            self.count += 1
            answer = await self.client.post(_REVIEWS, question.review())
        said = answer.get("status") or {}
        return str(said.get("reason") or "") if said.get("allowed") else None

    async def granted(self, questions: Sequence[Question]) -> dict[Question, str]:
        reasons = await asyncio.gather(*map(self.reason, questions))
        return {one: reason for one, reason in zip(questions, reasons, strict=True) if reason is not None}

    async def refused(self, questions: Iterable[Question]) -> list[Question]:
        asked = list(questions)
        granted = await self.granted(asked)
        return [one for one in asked if one not in granted]


async def accounts_of(cluster: Cluster) -> list[Account]:
    """One for each role that is installed: of its Deployment, else by the chart's labels, else by name."""
    found = {one.role: Account(one.role, one.namespace, one.service_account, one) for one in await installed(cluster)}
    for account in await cluster.listed(SERVICE_ACCOUNTS, namespace=cluster.namespace) or []:
        name, own = account["metadata"]["name"], labels(account)
        for role in BY_NAME:
            labeled = own.get(PART_OF) == "berth" and own.get(COMPONENT) == role
            if role not in found and (labeled or name in (f"berth-{role}", f"{cluster.release}-{role}")):
                found[role] = Account(role, cluster.namespace, name)
    return [found[role] for role in BY_NAME if role in found]
