"""How the daemon of a node is reached, and what it says of its machine."""

from __future__ import annotations

from app.rmd import metrics
from app.rmd.controller.caches import Caches
from app.rmd.daemon.caches import GUARANTEED
from app.rmd.daemon.client import Daemon, DaemonClient, Refused, Unanswered
from app.rmd.daemon.reasons import CLASSES_USED_UP, reason_of
from app.rmd.model import DAEMON_LABEL, DAEMON_VALUE, SERVER_NAME

NO_NODE = "there is no node"
"""How a state begins that no daemon said."""


class Daemons:
    def __init__(self, client: DaemonClient, caches: Caches) -> None:
        self._client, self._caches = client, caches

    def of(self, node: str) -> Daemon:
        """Raises Unanswered and NoCertificate."""
        if self._caches.nodes.get("", node) is None:
            raise Unanswered(f"{NO_NODE} {node}")
        pod = self._caches.daemon_of(node)
        if pod is None or not pod.url:
            raise Unanswered(
                f"no daemon runs on the node: no Pod with the label {DAEMON_LABEL}={DAEMON_VALUE} is there"
            )
        tls = self._caches.certificates.context() if pod.url.startswith("https://") else None
        return self._client.at(pod.url, tls, server_name=SERVER_NAME if tls else "")


async def cores_of(node: str, daemon: Daemon) -> tuple[frozenset[int] | None, str]:
    """Every core of the machine; or None and what the daemon says, as it refuses where no class of service is left.

    Raises Unanswered where the daemon answers nothing else either.
    """
    try:
        found = await daemon.caches()
    except Unanswered as error:
        await daemon.reservations()
        return None, str(error)
    except Refused as error:
        if reason_of(error.text) == CLASSES_USED_UP:
            metrics.none_free(node)
        return None, error.text
    metrics.free(node, {cache.id: len(cache.free.get(GUARANTEED, ())) for cache in found})
    return frozenset().union(*(cache.cores for cache in found)), ""
