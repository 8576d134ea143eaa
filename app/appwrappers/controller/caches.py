"""What the controller reads: AppWrappers, their Pods, the configuration, and the labels of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.appwrappers.config import OperatorConfig, parse_config
from app.appwrappers.controller.autopilot import resources_to_leave
from app.appwrappers.controller.pods import Pod, stored_pod
from app.appwrappers.controller.stored import AppWrapper, stored_app_wrapper
from app.appwrappers.model import APP_WRAPPER, APP_WRAPPERS
from app.kube.configuration import Configuration, data_of
from app.kube.kit import Kit, Wakes, itself
from app.kube.resources import CONFIG_MAPS, NODES, PODS
from app.kube.store import Key, Store
from app.wire import JSON


class Caches:
    """`config_name` is the ConfigMap, in `namespace`."""

    def __init__(self, kit: Kit, *, config_name: str, namespace: str) -> None:
        self.app_wrappers = kit.cache(APP_WRAPPERS, stored_app_wrapper, indices={"uid": lambda wrapper: (wrapper.uid,)})
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
