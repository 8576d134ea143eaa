"""Check `claims`: who publishes network data and may do so, what is missing, and by which road devices are served.

It says nothing of an API server without resource.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.doctor.claims_data import network_data
from app.doctor.claims_permissions import drivers, multus
from app.doctor.claims_publishers import publishers
from app.doctor.claims_roads import roads
from app.doctor.claims_services import definitions, services
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, Part
from app.kube.resources import RESOURCE_CLAIMS


def _where_served(part: Part) -> Part:
    async def run(cluster: Cluster) -> AsyncIterator[Finding]:
        if await cluster.serves(RESOURCE_CLAIMS):
            async for finding in part(cluster):
                yield finding

    return run


_PARTS = (publishers, network_data, drivers, multus, roads, services, definitions)
CHECK = Check("claims", tuple(_where_served(part) for part in _PARTS))
