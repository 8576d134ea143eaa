"""Check `claims`: who publishes network data and may do so, what is missing, and by which road devices are served.

Of an API server without resource.k8s.io/v1 it says who needs that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.claims.settings import AdmissionSettings
from app.doctor.claims_data import network_data
from app.doctor.claims_publishers import drivers, multus, publishers
from app.doctor.claims_roads import roads
from app.doctor.claims_services import definitions, services
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, error
from app.kube.resources import RESOURCE_CLAIMS

_PARTS = (publishers, network_data, drivers, multus, roads, services, definitions)
_CONTROLLERS = ("claims", "claim-templates", "network-services")


async def _unserved(cluster: Cluster) -> AsyncIterator[Finding]:
    """What of Berth is on and needs claims: Kubernetes serves older versions of them before 1.34."""
    asking = [f"controller {name}" for name in _CONTROLLERS if name in await cluster.controllers()]
    if (await cluster.settings(AdmissionSettings)).claims:
        asking.append("the webhook with --claims")
    if asking:
        yield error("BERTH5015", "", names=asking, version=RESOURCE_CLAIMS.api_version)


CHECK = Check("claims", _PARTS, about=RESOURCE_CLAIMS, otherwise=_unserved)
