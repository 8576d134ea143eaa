"""Keeps the tenant's label on the nodes (DPUs) of its hosts.

Sets it by server-side apply, as its owner; takes it away under the version that it has read. Touches no other field
of a node.
"""

from __future__ import annotations

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.controller import Done, Result
from app.kube.resources import NODES
from app.kube.store import Store
from app.placement.model import PlacementOptions
from app.tenancy.controller.state import FIELD_MANAGER, NodeState, TenantState, project_node, verdict
from app.wire import JSON


class NodeReconciler:
    """With an empty `tenant_node_label` (no confinement) nothing is ever done."""

    def __init__(
        self, client: KubeClient, tenants: Store[TenantState], nodes: Store[NodeState], options: PlacementOptions
    ) -> None:
        self._client = client
        self._tenants = tenants
        self._nodes = nodes
        self._options = options

    async def reconcile(self, name: str) -> Result:
        """One node by its name. Decides from the cache, and again from what the API server says before it writes."""
        cached = self._nodes.get("", name)
        if not self._options.tenant_node_label or cached is None or verdict(cached, self._tenants).keep:
            return Done()
        try:
            obj = await self._client.get(NODES, name)
            state = project_node(obj, self._options)
            if state is not None:
                await self._write(obj, state)
        except ApiError as error:
            if not error.not_found:
                raise
        return Done()

    async def _write(self, obj: JSON, state: NodeState) -> None:
        decided, label = verdict(state, self._tenants), self._options.tenant_node_label
        metadata = obj["metadata"]
        if decided.keep:
            return
        if decided.tenant is None:
            patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "labels": {label: None}}}
            await self._client.patch(NODES, state.name, patch, patch_type="merge")
            return
        body = NODES.body({"name": state.name, "uid": metadata["uid"], "labels": {label: decided.tenant}})
        await self._client.apply(NODES, state.name, body, field_manager=FIELD_MANAGER)
