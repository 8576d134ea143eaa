"""What the controller reads: AppWrappers, their Pods, the configuration, the labels of nodes, and wrapped objects.

Of the kinds that are wrapped there is one cache for each, from the first AppWrapper on that has the kind. They hold
what has the label of an AppWrapper, reduced to what the controller reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.appwrappers.controller.objects import resources_to_leave
from app.appwrappers.controller.outcomes import Outcome, Pod, stored_pod
from app.appwrappers.controller.stored import INDICES, AppWrapper, Component, stored_app_wrapper, stored_component
from app.appwrappers.model import APP_WRAPPER, APP_WRAPPERS
from app.appwrappers.options import OperatorConfig, parse_config
from app.kube.client import KubeClient
from app.kube.configuration import Configuration, data_of
from app.kube.controller import Controller
from app.kube.kit import Kit, Wakes, itself
from app.kube.own_writes import OwnWrites, by_version
from app.kube.reflector import Reflector, Scope
from app.kube.resources import CONFIG_MAPS, NODES, PODS, Resource
from app.kube.store import Key, Store
from app.wire import JSON

_LAG = 10.0
"""Seconds for which a watch may not have shown yet what was written."""
_DEPLOYED = ("Resuming", "Running")


class AppWrapperCaches:
    """`config_name` is the ConfigMap, in `namespace`."""

    def __init__(self, kit: Kit, *, config_name: str, namespace: str) -> None:
        self.app_wrappers = kit.cache(APP_WRAPPERS, stored_app_wrapper, indices=INDICES)
        self.pods = kit.cache(
            PODS,
            stored_pod,
            indices={"app wrapper": lambda pod: ((pod.key[0], pod.app_wrapper),), "node": lambda pod: (pod.node,)},
            labels=APP_WRAPPER,
            called="AppWrapperPod",
        )
        self._configs = kit.cache(CONFIG_MAPS, data_of, namespace=namespace, name=config_name)
        self._nodes = kit.cache(NODES, labels_of)
        self.written = kit.own(self.app_wrappers, group=lambda wrapper: wrapper.key)
        self._configuration = Configuration(
            self._configs, name=config_name, parse=parse_config, usual=OperatorConfig(), changed=self._judge_all
        )
        kit.waits_for(self._configuration.problems)
        self._unhealthy: dict[str, frozenset[str]] = {}
        """By node: the resources that Pods must not use any more there."""
        self._nodes.subscribe(lambda _event, key, _old, new: self._judge(key[1], new))

    def wakes(self) -> Mapping[Store[Any], Wakes]:
        """Which AppWrappers have to be looked at after a change."""
        return {
            self.app_wrappers: itself,
            self.pods: wrappers_of,
            self._configs: lambda _key, _old, _new: self._configured(),
            self._nodes: self._on_node,
        }

    @property
    def config(self) -> OperatorConfig:
        return self._configuration.current

    def pods_of(self, wrapper: AppWrapper) -> list[Pod]:
        """The Pods of an AppWrapper. One that was made a moment ago may not be among them."""
        return belonging(self.pods.by_index("app wrapper", wrapper.key), wrapper)

    def unhealthy_nodes(self) -> Mapping[str, frozenset[str]]:
        return self._unhealthy if self.config.autopilot.monitor_nodes else {}

    def _configured(self) -> Iterable[Key]:
        """All, unless what was read before stays in force."""
        return () if self._configuration.problems() else self.app_wrappers.keys()

    def _on_node(self, key: Key, old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> Iterable[Key]:
        """Those with Pods there, where it has become healthy or unhealthy."""
        if self._to_leave(old) == self._to_leave(new):
            return ()
        return [(pod.key[0], pod.app_wrapper) for pod in self.pods.by_index("node", key[1])]

    def _judge_all(self) -> None:
        for key in self._nodes.keys():  # noqa: SIM118 - a store is no mapping
            self._judge(key[1], self._nodes.get(*key))

    def _judge(self, node: str, labels: Mapping[str, str] | None) -> None:
        self._unhealthy.pop(node, None)
        if resources := self._to_leave(labels):
            self._unhealthy[node] = resources

    def _to_leave(self, labels: Mapping[str, str] | None) -> frozenset[str]:
        return resources_to_leave(labels, self.config.autopilot) if labels else frozenset()


def labels_of(node: JSON) -> dict[str, str]:
    return dict(node["metadata"].get("labels") or {})


def wrappers_of(_key: Key, old: Pod | None, new: Pod | None) -> list[Key]:
    """Those that a Pod names, before the change and after it."""
    return [(pod.key[0], pod.app_wrapper) for pod in (old, new) if pod is not None]


def belonging(pods: Iterable[Pod], wrapper: AppWrapper) -> list[Pod]:
    """Its own of the Pods with its label: those with our mark; where its objects have none, those without as well."""
    marked = wrapper.marked
    return [pod for pod in pods if pod.mark == wrapper.uid or (not marked and not pod.mark)]


class Kind:
    """`get` is the object of a name as the watch and our own writes say."""

    def __init__(self, client: KubeClient, resource: Resource) -> None:
        self.resource = resource
        self.store: Store[Component] = Store(stored_component)
        self.reflector = Reflector(client, Scope(resource, label_selector=APP_WRAPPER), self.store)
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
