"""What a cluster of the sandbox held at some time, and the way back to it: one cluster serves a whole module of tests.

Objects are put back beneath the API, and whoever watches is told; so a webhook that runs goes on running.
"""

from __future__ import annotations

from datetime import UTC, datetime

from app.devtools.sandbox.kinds.crds import resources_of
from app.devtools.sandbox.server import Cluster
from app.devtools.sandbox.storage import Key

_DEFINITIONS: Key = ("apiextensions.k8s.io", "customresourcedefinitions")


class Baseline:
    """The objects, Services and tokens of now."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._objects = {key: dict(table.objects) for key, table in cluster.storage.tables.items()}
        self._services = dict(cluster.services)
        self._tokens = dict(cluster.state.authenticator.tokens)

    def restore(self) -> None:
        """Take away what came since, bring back what went or was changed."""
        storage = self._cluster.storage
        storage.clock = lambda: datetime.now(UTC)
        for key in list(storage.tables):
            self._restore(key)
        services, tokens = self._cluster.services, self._cluster.state.authenticator.tokens
        services.clear()
        services.update(self._services)
        tokens.clear()
        tokens.update(self._tokens)

    def _restore(self, key: Key) -> None:
        storage, registry = self._cluster.storage, self._cluster.state.registry
        kept, present = self._objects.setdefault(key, {}), storage.table(key).objects
        for pair in set(present) - set(kept):
            storage.delete(key, *pair)
            if key == _DEFINITIONS:
                registry.replace_custom(pair[1], [])
        for pair, obj in kept.items():
            if present.get(pair) is obj:
                continue
            write = storage.update if pair in present else storage.create
            kept[pair] = write(key, {**obj, "metadata": {**obj["metadata"]}})
            if key == _DEFINITIONS:
                registry.replace_custom(pair[1], resources_of(obj))
