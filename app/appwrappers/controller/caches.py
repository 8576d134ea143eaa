"""What the controller reads: AppWrappers, their Pods and objects, the configuration, and the labels of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from app.appwrappers.config import OperatorConfig, parse_config
from app.appwrappers.controller.autopilot import resources_to_leave
from app.appwrappers.controller.kinds import LAG, Kinds
from app.appwrappers.controller.outcomes import Outcome
from app.appwrappers.controller.pods import Pod, stored_pod
from app.appwrappers.controller.stored import AppWrapper, Component, stored_app_wrapper
from app.appwrappers.model import APP_WRAPPER, APP_WRAPPERS
from app.kube.client import KubeClient
from app.kube.configuration import Configuration, data_of
from app.kube.own_writes import OwnWrites
from app.kube.reflector import Reflector
from app.kube.resources import CONFIG_MAPS, NODES, PODS, Resource
from app.kube.running import problems_of
from app.kube.store import EventType, Key, Store
from app.wire import JSON

_DEPLOYED = ("Resuming", "Running")


class Caches:
    """`wake` is called with AppWrappers to look at. `config_name` is the ConfigMap, in `namespace`."""

    def __init__(self, client: KubeClient, wake: Callable[[Key], object], *, config_name: str, namespace: str) -> None:
        self._wake = wake
        self.app_wrappers: Store[AppWrapper] = Store(stored_app_wrapper, indices={"uid": lambda one: (one.uid,)})
        self.pods: Store[Pod] = Store(
            stored_pod,
            indices={"app wrapper": lambda one: ((one.key[0], one.app_wrapper),), "node": lambda one: (one.node,)},
        )
        self._configs: Store[JSON] = Store(data_of)
        self._configuration = Configuration(
            self._configs,
            name=config_name,
            parse=parse_config,
            usual=OperatorConfig(),
            changed=self._config_changed,
        )
        self._nodes: Store[dict[str, str]] = Store(lambda obj: dict(obj["metadata"].get("labels") or {}))
        self.unhealthy: dict[str, frozenset[str]] = {}
        self.kinds = Kinds(client, changed=self._component_changed, synced=self.wake_all)
        self.ended: dict[str, dict[tuple[Resource, Key], Outcome]] = {}
        """By UID of AppWrappers: the outcomes of objects that had ended when they went.

        A change may be looked at only after the next one: a TTL of 0 must hide no end.
        """
        self.written: OwnWrites[AppWrapper] = OwnWrites(
            lambda key: self.app_wrappers.get(*key),
            lifetime=LAG,
            reached=lambda shown, written: shown.version >= written.version,
            uid=lambda one: one.uid,
            group=lambda one: one.key,
        )
        self.app_wrappers.subscribe(lambda _event, key, old, new: self.written.shown(key, old, new) or wake(key))
        self.app_wrappers.subscribe(lambda _event, _key, old, new: self._app_wrapper_changed(old, new))
        self.app_wrappers.on_renewed(self.written.clear)
        self.pods.subscribe(lambda _event, _key, old, new: self._pod_changed(old, new))
        self._nodes.subscribe(self._node_changed)
        self.stores: tuple[Store[Any], ...] = (self.app_wrappers, self.pods, self._configs, self._nodes)
        self.reflectors = (
            Reflector(client, APP_WRAPPERS, self.app_wrappers),
            Reflector(client, PODS, self.pods, label_selector=APP_WRAPPER, called="AppWrapperPod"),
            Reflector(client, CONFIG_MAPS, self._configs, namespace=namespace, name=config_name),
            Reflector(client, NODES, self._nodes),
        )

    @property
    def config(self) -> OperatorConfig:
        return self._configuration.current

    def pods_of(self, wrapper: AppWrapper) -> list[Pod]:
        """The Pods of an AppWrapper. One that was made a moment ago may not be among them."""
        return belonging(self.pods.by_index("app wrapper", wrapper.key), wrapper)

    def unhealthy_nodes(self) -> Mapping[str, frozenset[str]]:
        return self.unhealthy if self.config.autopilot.monitor_nodes else {}

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return [*problems_of(self.reflectors), *self._configuration.problems()]

    def wake_all(self) -> None:
        for key in self.app_wrappers.keys():  # noqa: SIM118 - a store is no mapping
            self._wake(key)

    def expire(self) -> None:
        """Look again at what the watches have not confirmed in time."""
        for wrapper in self.written.expire():
            self._wake(wrapper.key)
        for component in self.kinds.expire():
            self._wake_owner(component)

    def _app_wrapper_changed(self, old: AppWrapper | None, new: AppWrapper | None) -> None:
        if old is not None and (new is None or new.uid != old.uid or new.phase not in _DEPLOYED):
            self.ended.pop(old.uid, None)

    def _component_changed(self, resource: Resource, old: Component | None, new: Component | None) -> None:
        for component in {old, new}:
            if component is not None:
                self._wake_owner(component)
        if new is not None:
            self.ended.get(new.owner, {}).pop((resource, new.key), None)
        elif old is not None and old.outcome.ending and self._is_deployed(old.owner):
            self.ended.setdefault(old.owner, {})[resource, old.key] = old.outcome

    def _is_deployed(self, uid: str) -> bool:
        return any(one.phase in _DEPLOYED for one in self.app_wrappers.by_index("uid", uid))

    def _wake_owner(self, component: Component) -> None:
        for wrapper in self.app_wrappers.by_index("uid", component.owner):
            self._wake(wrapper.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._wake((pod.key[0], pod.app_wrapper))

    def _config_changed(self) -> None:
        for name in self._nodes.keys():  # noqa: SIM118
            self._judge(name[1])
        self.wake_all()

    def _node_changed(self, _event: EventType, key: Key, _old: Any, _new: Any) -> None:
        self._judge(key[1])

    def _judge(self, node: str) -> None:
        labels = self._nodes.get("", node)
        before = self.unhealthy.pop(node, frozenset())
        after = resources_to_leave(labels, self.config.autopilot) if labels else frozenset()
        if after:
            self.unhealthy[node] = after
        if before != after:
            for pod in self.pods.by_index("node", node):
                self._wake((pod.key[0], pod.app_wrapper))


def belonging(pods: Iterable[Pod], wrapper: AppWrapper) -> list[Pod]:
    """Its own of the Pods with its label: those with our mark; where its objects have none, those without as well."""
    marked = wrapper.marked
    return [pod for pod in pods if pod.mark == wrapper.uid or (not marked and not pod.mark)]
