"""What the node agent reads of the API server: the Pods of its node, the daemon among them, and its RmdWorkloads."""

from __future__ import annotations

from collections.abc import Callable

from app.kube.client import KubeClient
from app.kube.reflector import Reflector
from app.kube.resources import PODS
from app.kube.running import problems_of
from app.kube.store import Key, Store
from app.rmd.agent.stored import Made, NodePod, node_labels, stored_made, stored_pod
from app.rmd.model import DAEMON_LABEL, DAEMON_VALUE, RMD_WORKLOADS
from app.rmd.stored import DaemonPod, stored_daemon


class Caches:
    """`wake` is called with the Pod to look at. Daemons are in `namespace`."""

    def __init__(self, client: KubeClient, *, node: str, namespace: str, wake: Callable[[Key], object]) -> None:
        on_node = f"spec.nodeName={node}"
        (label,) = node_labels(node).items()
        self.pods: Store[NodePod] = Store(stored_pod)
        self.made: Store[Made] = Store(stored_made, indices={"pod": lambda one: ("/".join(_pod_of(one)),)})
        self._daemons: Store[DaemonPod] = Store(stored_daemon)
        self.stores = (self.pods, self.made)
        self.reflectors = (
            Reflector(client, PODS, self.pods, field_selector=on_node),
            Reflector(client, RMD_WORKLOADS, self.made, label_selector="=".join(label)),
            Reflector(
                client,
                PODS,
                self._daemons,
                namespace=namespace,
                label_selector=f"{DAEMON_LABEL}={DAEMON_VALUE}",
                field_selector=on_node,
                called="RmdDaemonPod",
            ),
        )
        self.pods.subscribe(lambda _event, key, _old, _new: wake(key))
        self.made.subscribe(lambda _event, _key, old, new: [wake(_pod_of(made)) for made in (old, new) if made])

    def waiting(self) -> list[str]:
        return problems_of(self.reflectors)

    def keys(self) -> set[Key]:
        """The Pods of the node, and those that have RmdWorkloads."""
        return {*self.pods.keys(), *(_pod_of(made) for made in self.made.values())}

    def made_of(self, pod: Key) -> list[Made]:
        """The RmdWorkloads of Pods of this name."""
        return self.made.by_index("pod", "/".join(pod))

    def daemon(self) -> DaemonPod | None:
        found = (daemon for daemon in self._daemons.values() if daemon.usable)
        return min(found, key=lambda one: (not one.url, one.key), default=None)


def _pod_of(one: Made) -> Key:
    return one.key[0], one.pod[0]
