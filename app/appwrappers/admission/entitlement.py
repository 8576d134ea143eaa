"""Whether users may have what an AppWrapper makes for them, and whether the controller may make it.

The API server is asked which resources serve kinds, who may do what, what objects belong to, and for the default
queue. Faults are raised, and never taken for a denial.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from app.admission.review import UserInfo
from app.appwrappers.admission import rights
from app.appwrappers.admission.components import no_namespace
from app.appwrappers.admission.rights import Kind, Resources, Right, review_of, service_account
from app.appwrappers.ancestors import Ancestor, stored_ancestor
from app.appwrappers.kueue.model import DEFAULT_QUEUE, LOCAL_QUEUES, LOCAL_QUEUES_V1BETA1
from app.errors import Transient
from app.kube.asking import once
from app.kube.client import KubeClient
from app.kube.discovery import Discovery
from app.kube.lookup import Lookup
from app.kube.resources import Resource
from app.kube.store import Store
from app.pace import at_pace
from app.wire import JSON, encode_json

T = TypeVar("T")
_FIELD = "spec.components"
_QUEUE_KINDS = tuple(Kind(resource.api_version, resource.kind) for resource in (LOCAL_QUEUES, LOCAL_QUEUES_V1BETA1))
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
MOST_KINDS = 64
"""Of one AppWrapper: each costs the API server up to eight questions."""
_REMEMBERED = 60.0
_KEPT = 4096


class Entitlement:
    """With `strict`, who creates an AppWrapper is also asked for the rights to delete, and to create Pods.

    `controller` is its service account as NAMESPACE/NAME, "" where it is not known. `clock` counts seconds.
    """

    def __init__(
        self, access: Access, *, strict: bool, controller: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._access, self._strict, self._clock = access, strict, clock
        self._controller = service_account(controller) if controller else None
        self._granted: dict[Right, float] = {}

    async def problems(self, user: UserInfo, components: Sequence[JSON], namespace: str) -> list[str]:
        """What the user may not do of what the components need, by component. Raises Transient."""
        kinds = _kinds(components)
        if len(kinds) > MOST_KINDS:
            return [f"spec.components: want at most {MOST_KINDS} kinds of objects, got {len(kinds)}"]
        resources = await self._access.resources(kinds)
        needed = await at_pace(lambda: list(rights.of_creator(components, resources, namespace, strict=self._strict)))
        refused = await self._access.refused(user, (right for _, right in needed))
        return [
            *_without_namespace(components, resources),
            *(
                f"spec.components[{index}].template: User {user.username} is not authorized to "
                f"{right.verb} {right.resource} in {right.namespace or 'all namespaces'}"
                for index, right in needed
                if right in refused
            ),
        ]

    async def warnings(self, components: Sequence[JSON], namespace: str) -> list[str]:
        """What the controller may not do of what the components need. Raises Transient."""
        if self._controller is None:
            return []
        kinds = _kinds(components)[:MOST_KINDS]
        resources = await self._access.resources(kinds)
        needed = {kind: tuple(rights.of_controller(kind, resources, namespace)) for kind in kinds}
        refused = await self._refused_to_controller(
            self._controller, (right for all_ in needed.values() for right in all_)
        )
        return [
            _missing(self._controller.username, kind, resources, missing)
            for kind, needs in needed.items()
            if (missing := [right for right in needs if right in refused])
        ]

    async def may_admit(self, user: UserInfo, namespace: str, name: str) -> bool:
        """Whether the user has the verb `admit`. Raises Transient."""
        return not await self._access.refused(user, [rights.to_admit(namespace, name)])

    async def _refused_to_controller(self, controller: UserInfo, needed: Iterable[Right]) -> frozenset[Right]:
        """What was granted is believed for a while: it is a hint, and the same for nearly every AppWrapper."""
        now = self._clock()
        rights = [right for right in needed if now - self._granted.get(right, -_REMEMBERED) >= _REMEMBERED]
        refused = await self._access.refused(controller, rights)
        if len(self._granted) > _KEPT:
            self._granted.clear()
        self._granted |= {right: now for right in rights if right not in refused}
        return refused


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
        wrapped, discovery = tuple(dict.fromkeys(kinds)), self._discovery
        served = await asyncio.gather(
            *(
                once(kind, partial(discovery.resource_of, *kind), field=_FIELD, what=f"{kind.api_version} {kind.kind}")
                for kind in wrapped
            )
        )
        return dict(zip(wrapped, served, strict=True))

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


def _kinds(components: Iterable[JSON]) -> list[Kind]:
    return list(dict.fromkeys(kind for component in components if (kind := rights.kind_of(component)) is not None))


def _without_namespace(components: Sequence[JSON], resources: Resources) -> Iterator[str]:
    """A problem for each component whose kind has no namespaces, as discovery says."""
    for index, component in enumerate(components):
        kind = rights.kind_of(component)
        resource = resources.get(kind) if kind is not None else None
        if resource is not None and not resource.namespaced:
            yield f"spec.components[{index}].template.kind: {no_namespace(resource.kind)}"


def _missing(controller: str, kind: Kind, resources: Resources, missing: Sequence[Right]) -> str:
    resource = resources[kind]
    plural, group = (resource.plural, resource.group) if resource is not None else (rights.ANY, "")
    verbs = ", ".join(right.verb for right in missing)
    return (
        f"the controller ({controller}) may not {verbs} {plural} for {kind.kind}: until it may, this cannot run. "
        f'Add to its role: {{apiGroups: ["{group}"], resources: [{plural}], verbs: [{verbs}]}}'
    )
