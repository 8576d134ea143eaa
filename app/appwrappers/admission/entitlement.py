"""Whether users may have what an AppWrapper makes for them, and whether the controller may make it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from app.admission.review import UserInfo
from app.appwrappers.admission import rights
from app.appwrappers.admission.access import Access
from app.appwrappers.admission.creators import service_account
from app.appwrappers.admission.rights import Kind, Resources, Right
from app.appwrappers.admission.scopes import no_namespace
from app.pace import at_pace
from app.wire import JSON

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
        asked = [right for right in needed if now - self._granted.get(right, -_REMEMBERED) >= _REMEMBERED]
        refused = await self._access.refused(controller, asked)
        if len(self._granted) > _KEPT:
            self._granted.clear()
        self._granted |= {right: now for right in asked if right not in refused}
        return refused


def _kinds(components: Iterable[JSON]) -> list[Kind]:
    return list(dict.fromkeys(kind for component in components if (kind := rights.kind_of(component)) is not None))


def _without_namespace(components: Sequence[JSON], resources: Resources) -> Iterator[str]:
    """A problem for each component whose kind has no namespaces, as discovery says."""
    for index, component in enumerate(components):
        kind = rights.kind_of(component)
        found = resources.get(kind) if kind is not None else None
        if found is not None and not found.namespaced:
            yield f"spec.components[{index}].template.kind: {no_namespace(found.kind)}"


def _missing(controller: str, kind: Kind, resources: Resources, missing: Sequence[Right]) -> str:
    resource = resources[kind]
    plural, group = (resource.plural, resource.group) if resource is not None else (rights.ANY, "")
    verbs = ", ".join(right.verb for right in missing)
    return (
        f"the controller ({controller}) may not {verbs} {plural} for {kind.kind}: until it may, this cannot run. "
        f'Add to its role: {{apiGroups: ["{group}"], resources: [{plural}], verbs: [{verbs}]}}'
    )
