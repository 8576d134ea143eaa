"""ClusterRoles with an `aggregationRule` get the rules of what they select, and keep them current."""

from __future__ import annotations

from app.devtools.sandbox.access.aggregation import aggregated_rules, is_aggregated
from app.devtools.sandbox.standins.reconciling import Watched, reconciling
from app.kube.client import KubeClient
from app.kube.resources import CLUSTER_ROLES
from app.kube.store import EventType, Key
from app.wire import JSON

_MANAGER = "clusterrole-aggregation-controller"


class RoleAggregator:
    """Writes the rules of ClusterRoles that aggregate others, as their field manager in a real cluster does."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        self._roles = watched.store(CLUSTER_ROLES)
        self.controller = reconciling("cluster-roles", self._reconcile, self._roles, workers=1)
        self._roles.subscribe(self._changed)

    def _changed(self, _event: EventType, _key: Key, _old: JSON | None, _new: JSON | None) -> None:
        """A change of any role may be one of what others select: `edit` has the rules of `view`."""
        for key in self._roles.keys():  # noqa: SIM118  a Store is no mapping
            self.controller.enqueue(key)

    async def _reconcile(self, key: Key) -> None:
        role = self._roles.get(*key)
        if role is None or not is_aggregated(role):
            return
        rules = aggregated_rules(role, self._roles.values())
        if rules != (role.get("rules") or []):
            body = CLUSTER_ROLES.body({"name": key[1]}, rules=rules)
            await self._client.apply(CLUSTER_ROLES, key[1], body, field_manager=_MANAGER)
