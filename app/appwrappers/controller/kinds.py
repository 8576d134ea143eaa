"""Caches of the kinds that are wrapped: one for each, from the first AppWrapper on that has the kind.

They hold what has the label of an AppWrapper, reduced to what the controller reads.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.appwrappers.controller.outcomes import Outcome
from app.appwrappers.controller.stored import AppWrapper, Component, stored_component
from app.appwrappers.model import APP_WRAPPER
from app.kube.client import KubeClient
from app.kube.controller import Controller
from app.kube.kit import Kit
from app.kube.own_writes import OwnWrites, by_version
from app.kube.reflector import Reflector
from app.kube.resources import Resource
from app.kube.store import Key, Store

_LAG = 10.0
"""Seconds for which a watch may not have shown yet what was written."""
_DEPLOYED = ("Resuming", "Running")


class Kind:
    """`get` is the object of a name as the watch and our own writes say."""

    def __init__(self, client: KubeClient, resource: Resource) -> None:
        self.resource = resource
        self.store: Store[Component] = Store(stored_component)
        self.reflector = Reflector(client, resource, self.store, label_selector=APP_WRAPPER)
        self.written: OwnWrites[Component] = by_version(lambda key: self.store.get(*key), lifetime=_LAG)
        self.written.follow(self.store)

    @property
    def known(self) -> bool:
        """Whether the cache says what there is; where rights are missing it never will."""
        return self.reflector.healthy and not self.store.in_doubt

    @property
    def coming(self) -> bool:
        """Whether the first list has neither come nor been refused."""
        return not self.store.synced and self.reflector.reason == "not listed yet"

    def get(self, key: Key) -> Component | None:
        return self.written.get(key)


class Kinds:
    """A change of an object, also by ourselves, wakes its AppWrapper. Readiness waits for none of the caches."""

    def __init__(self, kit: Kit, reconciler: Controller[Key], app_wrappers: Store[AppWrapper]) -> None:
        self._kit, self._reconciler, self._app_wrappers = kit, reconciler, app_wrappers
        self._kinds: dict[Resource, Kind] = {}
        self.ended: dict[str, dict[tuple[Resource, Key], Outcome]] = {}
        """By UID of AppWrappers: the outcomes of objects that had ended when they went.

        A change may be looked at only after the next one: a TTL of 0 must hide no end.
        """
        app_wrappers.subscribe(lambda _event, _key, old, new: self._app_wrapper_changed(old, new))
        kit.each_second("appwrappers-lag", self._expire)

    def of(self, resource: Resource) -> Kind:
        """The cache of a kind, which begins to fill if it is new."""
        kind = self._kinds.get(resource)
        if kind is None:
            kind = self._kinds[resource] = Kind(self._kit.client, resource)
            self._follow(kind)
        return kind

    def all(self) -> tuple[Kind, ...]:
        return tuple(self._kinds.values())

    def _follow(self, kind: Kind) -> None:
        kind.store.subscribe(lambda _event, _key, old, new: self._component_changed(kind.resource, old, new))
        kind.store.on_renewed(self._wake_all)
        self._kit.wake(self._reconciler, {kind.store: lambda _key, old, new: self._owners({old, new})})
        self._kit.beside("wrapped-kinds", kind.reflector.run)
        self._kit.beside("wrapped-kinds", lambda: self._filled(kind))

    async def _filled(self, kind: Kind) -> None:
        await kind.store.wait_synced()
        self._wake_all()

    def _expire(self) -> None:
        """Look again at what the watches have not confirmed in time."""
        for kind in self.all():
            self._wake(self._owners(kind.written.expire()))

    def _owners(self, components: Iterable[Component | None]) -> list[Key]:
        """The AppWrappers that the objects belong to."""
        return [
            wrapper.key
            for component in components
            if component is not None
            for wrapper in self._app_wrappers.by_index("uid", component.owner)
        ]

    def _wake_all(self) -> None:
        self._wake(self._app_wrappers.keys())

    def _wake(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._reconciler.enqueue(key)

    def _app_wrapper_changed(self, old: AppWrapper | None, new: AppWrapper | None) -> None:
        if old is not None and (new is None or new.uid != old.uid or new.phase not in _DEPLOYED):
            self.ended.pop(old.uid, None)

    def _component_changed(self, resource: Resource, old: Component | None, new: Component | None) -> None:
        if new is not None:
            self.ended.get(new.owner, {}).pop((resource, new.key), None)
        elif old is not None and old.outcome.ending and self._is_deployed(old.owner):
            self.ended.setdefault(old.owner, {})[resource, old.key] = old.outcome

    def _is_deployed(self, uid: str) -> bool:
        return any(wrapper.phase in _DEPLOYED for wrapper in self._app_wrappers.by_index("uid", uid))
