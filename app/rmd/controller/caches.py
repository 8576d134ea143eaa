"""What the controller reads: RmdWorkloads, the Pods of daemons, nodes, the RmdConfig, and the client certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.kube.kit import Kit, Wakes, all_of, itself
from app.kube.resources import CONFIG_MAPS, DAEMON_SETS, NODES, PODS, SECRETS
from app.kube.secrets import stored_files
from app.kube.store import Key, Store
from app.rmd.daemon.client import Certificates
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
from app.wire import JSON


class RmdCaches:
    """Daemons, the RmdConfig and the Secret `secret` with the client certificate are in `namespace`.

    The ConfigMap `templates` with the DaemonSets is in `own`, where users of the daemons cannot write it.
    """

    def __init__(self, kit: Kit, *, namespace: str, secret: str, templates: str, own: str) -> None:
        self._namespace = namespace
        self._template_key = own, templates
        self.workloads = kit.cache(RMD_WORKLOADS, stored_workload, indices={"node": _nodes_of})
        self.daemons = kit.cache(
            PODS,
            stored_daemon,
            indices={"node": lambda daemon: (daemon.node,)},
            namespace=namespace,
            labels=f"{DAEMON_LABEL}={DAEMON_VALUE}",
            called="RmdDaemonPod",
        )
        self.nodes = kit.cache(NODES, stored_node)
        self.node_states = kit.cache(RMD_NODE_STATES, stored_node_state, namespace=namespace)
        self._configs = kit.cache(RMD_CONFIGS, stored_config)
        self.daemon_sets = kit.cache(DAEMON_SETS, stored_daemon_set, namespace=namespace)
        self._templates = kit.cache(CONFIG_MAPS, _data_of, namespace=own, name=templates)
        self._secrets = kit.cache(SECRETS, stored_files, namespace=namespace, name=secret)
        self.certificates = Certificates(
            lambda: self._secrets.get(namespace, secret), place=f"Secret {namespace}/{secret}"
        )

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
        daemons = self.daemons.by_index("node", node)
        return min(
            (daemon for daemon in daemons if daemon.usable),
            key=lambda daemon: (not daemon.url, daemon.key),
            default=None,
        )

    def known(self, node: str) -> bool:
        """Whether a daemon of this node may be asked, now or later: then what it holds is not forgotten."""
        labeled, config = self.nodes.get("", node), self.config
        if labeled is None:
            return False
        selected = config is not None and config.selector.items() <= labeled.labels.items()
        return selected or self.daemon_of(node) is not None

    def targets_of(self, workload: Workload) -> tuple[str, ...]:
        """The nodes of an RmdWorkload. Its selector is added to that of the RmdConfig, and wins."""
        request = workload.read.request
        if not request.node_selector:
            return request.nodes
        config = self.config
        selector = {**(config.selector if config else {}), **request.node_selector}
        names = (name for name, node in self.nodes_by_name().items() if selector.items() <= node.labels.items())
        return tuple(sorted(names))

    def nodes_by_name(self) -> dict[str, Node]:
        return {key[1]: node for key in self.nodes.keys() if (node := self.nodes.get(*key)) is not None}  # noqa: SIM118

    def node_state_of(self, node: str) -> NodeState | None:
        state = self.node_states.get(self._namespace, node_state_name(node))
        return state if state is not None and state.node == node else None

    def node_names(self) -> set[str]:
        """All nodes that an RmdWorkload names, or has a state for, and those with an RmdNodeState."""
        named = {node for workload in self.workloads.values() for node in _nodes_of(workload)}
        return named | {state.node for state in self.node_states.values()}

    def workloads_woken(self) -> Mapping[Store[Any], Wakes]:
        """The RmdWorkloads that a change concerns."""
        return {
            self.workloads: itself,
            self.daemons: lambda _key, old, new: self._workloads_on(_nodes_with(old, new)),
            self.nodes: lambda key, _old, _new: self._workloads_on({key[1]}),
            self._configs: lambda key, old, new: self.workloads.keys() if self._selects(key, old, new) else (),
            self._secrets: all_of(self.workloads.keys),
        }

    def nodes_woken(self) -> Mapping[Store[Any], Wakes]:
        """The names of the nodes that a change concerns."""
        return {
            self.workloads: _asked,
            self.daemons: lambda _key, old, new: _nodes_with(old, new),
            self.nodes: lambda key, _old, _new: (key[1],),
            self.node_states: _made_anew,
            self._configs: lambda key, old, new: self.node_names() if self._selects(key, old, new) else (),
            self._secrets: all_of(self.node_names),
        }

    def configs_woken(self) -> Mapping[Store[Any], Wakes]:
        """The namespaces whose RmdConfig a change concerns."""
        ours = all_of(lambda: (self._namespace,))
        return {
            self.daemons: lambda _key, old, new: (self._namespace,) if _nodes_with(old, new) else (),
            self.nodes: ours,
            self.node_states: lambda _key, old, new: (self._namespace,) if old is None or new is None else (),
            self._configs: lambda key, _old, _new: (key[0],),
            self.daemon_sets: ours,
            self._templates: ours,
        }

    def _workloads_on(self, nodes: set[str]) -> list[Key]:
        """Those that are on one of the nodes, or may be."""
        return [
            workload.key
            for workload in self.workloads.values()
            if nodes and (workload.read.request.node_selector or not nodes.isdisjoint(_nodes_of(workload)))
        ]

    def _selects(self, key: Key, old: Config | None, new: Config | None) -> bool:
        """Whether other nodes than before are selected now."""
        return key[0] == self._namespace and (old.selector if old else None) != (new.selector if new else None)


def _nodes_with(old: DaemonPod | None, new: DaemonPod | None) -> set[str]:
    """The nodes of a daemon, before the change and after it."""
    return {daemon.node for daemon in (old, new) if daemon is not None}


def _asked(_key: Key, old: Workload | None, new: Workload | None) -> list[str]:
    """The nodes of which an RmdWorkload asks something else than before."""
    nodes = {*_nodes_of(old), *_nodes_of(new)}
    return [node for node in nodes if old is None or new is None or _asks(old, node) != _asks(new, node)]


def _made_anew(_key: Key, old: NodeState | None, new: NodeState | None) -> tuple[str, ...]:
    """Our own writes of statuses are no reason to ask a daemon."""
    return (new.node,) if new is not None and (old is None or old.uid != new.uid) else ()


def _data_of(config_map: JSON) -> Mapping[str, str]:
    return dict(config_map.get("data") or {})


def _nodes_of(workload: Workload | None) -> tuple[str, ...]:
    return tuple({*workload.states, *workload.read.request.nodes}) if workload is not None else ()


def _asks(workload: Workload, node: str) -> tuple[object, ...]:
    """What a node has to be looked at again for: our own writes of states are none of it."""
    return workload.uid, workload.generation, workload.deleting, workload.finalized, node in workload.states
