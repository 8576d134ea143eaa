"""Keeps the tenant's label on the nodes (DPUs) of its hosts.

Sets it by server-side apply, as its owner; takes it away under the version that it has read. Touches no other field
of a node.
"""

from __future__ import annotations

from app.kube.client import KubeClient
from app.kube.controller import Done, Result
from app.kube.resources import NODES
from app.kube.retry import get_or_none, if_there
from app.tenancy.controller.state import Claims, project_node
from app.tenancy.tenants.namespace import FIELD_MANAGER


async def reconcile_node(client: KubeClient, claims: Claims, name: str) -> Result:
    """Decides from the cache, and again from what the API server says before it writes.

    With an empty `tenant_node_label` (no confinement) nothing is ever done.
    """
    label, cached = claims.options.tenant_node_label, claims.nodes.get("", name)
    if not label or cached is None or claims.verdict(cached)[0] == cached.tenant:
        return Done()
    obj = await get_or_none(client, NODES, name)
    node = project_node(obj, claims.options) if obj is not None else None
    if obj is None or node is None or (tenant := claims.verdict(node)[0]) == node.tenant:
        return Done()
    metadata = obj["metadata"]
    if tenant:
        body = NODES.body({"name": name, "uid": metadata["uid"], "labels": {label: tenant}})
        await if_there(client.apply(NODES, name, body, field_manager=FIELD_MANAGER))
    else:
        patch, version = {"metadata": {"labels": {label: None}}}, metadata["resourceVersion"]
        await if_there(client.patch(NODES, name, patch, patch_type="merge", version=version))
    return Done()
