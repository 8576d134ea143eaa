"""What the controller reads: RmdWorkloads, the Pods of daemons, nodes, the RmdConfig, and the client certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app.kube.client import KubeClient
from app.kube.reflector import Reflector
from app.kube.resources import CONFIG_MAPS, DAEMON_SETS, NODES, PODS, SECRETS
from app.kube.running import problems_of
from app.kube.store import Key, Store
from app.rmd.daemon.certificates import Certificates, stored_files
from app.rmd.model import (
    CONFIG_NAME,
    DAEMON_LABEL,
    DAEMON_VALUE,
    RMD_CONFIGS,
    RMD_NODE_STATES,
    RMD_WORKLOADS,
    node_state_name,
)
from app.rmd.stored import (
    Config,
    DaemonPod,
    DaemonSet,
    Node,
    NodeState,
    Workload,
    stored_config,
    stored_daemon,
    stored_daemon_set,
    stored_node,
    stored_node_state,
    stored_workload,
)

Wake = Callable[[Any], object]


class Caches:
    """`wake_workload`, `wake_node` and `wake_config` are called with what to look at.

    Daemons, the RmdConfig and the Secret `secret` with the client certificate are in `namespace`. The ConfigMap
    `templates` with the DaemonSets is in `own`, where users of the daemons cannot write it.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        secret: str,
        templates: str,
        own: str,
        wake_workload: Wake,
        wake_node: Wake,
        wake_config: Wake,
    ) -> None:
        self._wake_workload, self._wake_node, self._wake_config = wake_workload, wake_node, wake_config
        self._template_key = own, templates
        self.workloads: Store[Workload] = Store(stored_workload, indices={"node": _nodes_of})
        self.daemons: Store[DaemonPod] = Store(stored_daemon, indices={"node": lambda one: (one.node,)})
        self.nodes: Store[Node] = Store(stored_node)
        self.node_states: Store[NodeState] = Store(stored_node_state)
        self._configs: Store[Config] = Store(stored_config)
        self.daemon_sets: Store[DaemonSet] = Store(stored_daemon_set)
        self._templates: Store[Mapping[str, str]] = Store(lambda obj: dict(obj.get("data") or {}))
        secrets: Store[Mapping[str, bytes]] = Store(stored_files)
        self.certificates = Certificates(lambda: secrets.get(namespace, secret), place=f"Secret {namespace}/{secret}")
        self.stores: tuple[Store[Any], ...] = (
            *(self.workloads, self.daemons, self.nodes, self.node_states),
            *(self._configs, self.daemon_sets, self._templates, secrets),
        )
        self._namespace = namespace
        self.reflectors = (
            Reflector(client, RMD_WORKLOADS, self.workloads),
            Reflector(
                client,
                PODS,
                self.daemons,
                namespace=namespace,
                label_selector=f"{DAEMON_LABEL}={DAEMON_VALUE}",
                called="RmdDaemonPod",
            ),
            Reflector(client, NODES, self.nodes),
            Reflector(client, RMD_NODE_STATES, self.node_states, namespace=namespace),
            Reflector(client, RMD_CONFIGS, self._configs),
            Reflector(client, DAEMON_SETS, self.daemon_sets, namespace=namespace),
            Reflector(client, CONFIG_MAPS, self._templates, namespace=own, name=templates),
            Reflector(client, SECRETS, secrets, namespace=namespace, name=secret),
        )
        self.workloads.subscribe(lambda _event, key, old, new: self._workload_changed(key, old, new))
        self.daemons.subscribe(lambda _event, _key, old, new: self._daemon_changed(old, new))
        self.nodes.subscribe(lambda _event, key, _old, _new: self._node_changed(key[1]))
        self.node_states.subscribe(lambda _event, _key, old, new: self._node_state_changed(old, new))
        for store in (self.daemon_sets, self._templates):
            store.subscribe(lambda *_change: wake_config(namespace))
        self._configs.subscribe(lambda _event, key, old, new: self._config_changed(key[0], old, new))
        secrets.subscribe(lambda *_change: self._wake_all())

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return problems_of(self.reflectors)

    @property
    def config(self) -> Config | None:
        return self.config_in(self._namespace)

    def config_in(self, namespace: str) -> Config | None:
        """The RmdConfig of a namespace; that of the daemons' namespace alone counts."""
        return self._configs.get(namespace, CONFIG_NAME)

    def config_namespaces(self) -> set[str]:
        """Those that have an RmdConfig, and the one that counts."""
        return {self._namespace, *(config.key[0] for config in self._configs.values())}

    @property
    def templates(self) -> Mapping[str, str]:
        return self._templates.get(*self._template_key) or {}

    def daemon_of(self, node: str) -> DaemonPod | None:
        found = self.daemons.by_index("node", node)
        return min((one for one in found if one.usable), key=lambda one: (not one.url, one.key), default=None)

    def known(self, node: str) -> bool:
        """Whether a daemon of this node may be asked, now or later: then what it holds is not forgotten."""
        found, config = self.nodes.get("", node), self.config
        if found is None:
            return False
        selected = config is not None and config.selector.items() <= found.labels.items()
        return selected or self.daemon_of(node) is not None

    def targets_of(self, workload: Workload) -> tuple[str, ...]:
        """The nodes of an RmdWorkload. Its selector is added to that of the RmdConfig, and wins."""
        request = workload.read.request
        if not request.node_selector:
            return request.nodes
        config = self.config
        wanted = {**(config.selector if config else {}), **request.node_selector}
        found = (name for name, node in self.nodes_by_name().items() if wanted.items() <= node.labels.items())
        return tuple(sorted(found))

    def nodes_by_name(self) -> dict[str, Node]:
        return {key[1]: node for key in self.nodes.keys() if (node := self.nodes.get(*key)) is not None}  # noqa: SIM118

    def node_state_of(self, node: str) -> NodeState | None:
        found = self.node_states.get(self._namespace, node_state_name(node))
        return found if found is not None and found.node == node else None

    def node_names(self) -> set[str]:
        """All nodes that an RmdWorkload names, or has a state for, and those with an RmdNodeState."""
        named = {node for workload in self.workloads.values() for node in _nodes_of(workload)}
        return named | {one.node for one in self.node_states.values()}

    def _workload_changed(self, key: Key, old: Workload | None, new: Workload | None) -> None:
        self._wake_workload(key)
        for node in {*_nodes_of(old), *_nodes_of(new)}:
            if old is None or new is None or _asks(old, node) != _asks(new, node):
                self._wake_node(node)

    def _daemon_changed(self, old: DaemonPod | None, new: DaemonPod | None) -> None:
        for node in {one.node for one in (old, new) if one is not None}:
            self._node_changed(node)

    def _node_changed(self, node: str) -> None:
        self._wake_node(node)
        self._wake_config(self._namespace)
        for workload in self.workloads.values():
            if workload.read.request.node_selector or node in _nodes_of(workload):
                self._wake_workload(workload.key)

    def _node_state_changed(self, old: NodeState | None, new: NodeState | None) -> None:
        """Our own writes of statuses are no reason to ask a daemon."""
        if new is not None and (old is None or old.uid != new.uid):
            self._wake_node(new.node)
        if old is None or new is None:
            self._wake_config(self._namespace)

    def _config_changed(self, namespace: str, old: Config | None, new: Config | None) -> None:
        self._wake_config(namespace)
        if namespace == self._namespace and (old.selector if old else None) != (new.selector if new else None):
            self._wake_all()

    def _wake_all(self) -> None:
        for key in self.workloads.keys():  # noqa: SIM118 - a store is no mapping
            self._wake_workload(key)
        for node in self.node_names():
            self._wake_node(node)


def _nodes_of(workload: Workload | None) -> tuple[str, ...]:
    return tuple({*workload.states, *workload.read.request.nodes}) if workload is not None else ()


def _asks(workload: Workload, node: str) -> tuple[object, ...]:
    """What a node has to be looked at again for: our own writes of states are none of it."""
    return workload.uid, workload.generation, workload.deleting, workload.finalized, node in workload.states
