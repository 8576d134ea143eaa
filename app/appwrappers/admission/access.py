"""Asks the API server which resources serve kinds, who may do what, what objects belong to, and for the default queue.

Faults are raised, and never taken for a denial.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from app.admission.review import UserInfo
from app.appwrappers.admission.rights import Kind, Resources, Right, review_of
from app.appwrappers.ancestors import Ancestor, stored_ancestor
from app.appwrappers.kueue.model import DEFAULT_QUEUE, LOCAL_QUEUES, LOCAL_QUEUES_V1BETA1
from app.errors import Transient
from app.kube.asking import once
from app.kube.client import KubeClient
from app.kube.discovery import Discovery
from app.kube.lookup import Lookup
from app.kube.resources import Resource
from app.kube.store import Store
from app.wire import JSON, encode_json

T = TypeVar("T")
_FIELD = "spec.components"
_QUEUE_KINDS = tuple(Kind(resource.api_version, resource.kind) for resource in (LOCAL_QUEUES, LOCAL_QUEUES_V1BETA1))
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Access:
    """`client` is None for as long as there is no connection."""

    def __init__(self, client: Callable[[], KubeClient | None]) -> None:
        self._client = client
        self._discovery: Discovery | None = None

    async def resources(self, kinds: Iterable[Kind]) -> Resources:
        """The resource of each kind. Raises Transient where the API server cannot be asked."""
        client = self._connected()
        if self._discovery is None:
            self._discovery = Discovery(client)
        asked, discovery = tuple(dict.fromkeys(kinds)), self._discovery
        found = await asyncio.gather(
            *(
                once(kind, partial(discovery.resource_of, *kind), field=_FIELD, what=f"{kind.api_version} {kind.kind}")
                for kind in asked
            )
        )
        return dict(zip(asked, found, strict=True))

    async def refused(self, user: UserInfo, rights: Iterable[Right]) -> frozenset[Right]:
        """The rights that the user has not; one question for each, all at a time. Raises Transient as above."""
        client = self._connected()
        questions = tuple(dict.fromkeys(rights))
        who = encode_json(user)

        async def answer(right: Right) -> JSON:
            return await client.post(_REVIEWS, review_of(user, right))

        answers = await asyncio.gather(
            *(once((who, right), partial(answer, right), field=_FIELD, what=right.what) for right in questions)
        )
        return frozenset(
            right
            for right, answer in zip(questions, answers, strict=True)
            if (answer.get("status") or {}).get("allowed") is not True
        )

    async def ancestor(self, resource: Resource, namespace: str, name: str) -> Ancestor | None:
        """What is to be known of the owner of an object; None where there is none. Raises Transient as above."""
        return await self._read(resource, namespace, name, stored_ancestor)

    async def default_queue(self, namespace: str) -> str:
        """The queue that Kueue gives a job without one: "default" where the namespace has it, else "".

        "" too where there is no connection. Raises Transient as above.
        """
        if self._client() is None:
            return ""
        served = await self.resources(_QUEUE_KINDS)
        resource = next((served[kind] for kind in _QUEUE_KINDS if served[kind]), None)
        if resource is None:
            return ""
        return DEFAULT_QUEUE if await self._read(resource, namespace, DEFAULT_QUEUE, bool) else ""

    async def _read(self, resource: Resource, namespace: str, name: str, project: Callable[[JSON], T]) -> T | None:
        client = self._connected()
        nothing: Store[T] = Store(project)
        lookup = Lookup(resource, nothing, project, client=lambda: client, called=resource.kind)
        return await lookup.find(namespace, name)

    def _connected(self) -> KubeClient:
        client = self._client()
        if client is None:
            raise Transient("there is no connection to an API server that could be asked for rights")
        return client
