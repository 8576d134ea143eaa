"""What the node agent reads of the API server: the Pods of its node, the daemon among them, and its RmdWorkloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.kube.kit import Kit, Wakes, itself
from app.kube.resources import PODS
from app.kube.store import Key, Store
from app.rmd.agent.stored import Made, node_labels, stored_made, stored_pod
from app.rmd.model import DAEMON_LABEL, DAEMON_VALUE, RMD_WORKLOADS
from app.rmd.stored import DaemonPod, stored_daemon


class Caches:
    """Daemons are in `namespace`."""

    def __init__(self, kit: Kit, *, node: str, namespace: str) -> None:
        on_node = f"spec.nodeName={node}"
        (label,) = node_labels(node).items()
        self.pods = kit.cache(PODS, stored_pod, fields=on_node)
        self.made = kit.cache(
            RMD_WORKLOADS,
            stored_made,
            indices={"pod": lambda made: ("/".join(_pod_of(made)),)},
            labels="=".join(label),
        )
        self._daemons: Store[DaemonPod] = kit.cache(
            PODS,
            stored_daemon,
            namespace=namespace,
            labels=f"{DAEMON_LABEL}={DAEMON_VALUE}",
            fields=on_node,
            called="RmdDaemonPod",
        )

    def wakes(self) -> Mapping[Store[Any], Wakes]:
        """Which Pod a change wakes."""
        return {
            self.pods: itself,
            self.made: lambda _key, old, new: [_pod_of(made) for made in (old, new) if made],
        }

    def keys(self) -> set[Key]:
        """The Pods of the node, and those that have RmdWorkloads."""
        return {*self.pods.keys(), *(_pod_of(made) for made in self.made.values())}

    def made_of(self, pod: Key) -> list[Made]:
        """The RmdWorkloads of Pods of this name."""
        return self.made.by_index("pod", "/".join(pod))

    def daemon(self) -> DaemonPod | None:
        daemons = (daemon for daemon in self._daemons.values() if daemon.usable)
        return min(daemons, key=lambda daemon: (not daemon.url, daemon.key), default=None)


def _pod_of(made: Made) -> Key:
    return made.key[0], made.pod[0]
