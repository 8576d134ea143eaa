"""Check `claims`: who publishes network data and may do so, what is missing, and by which road devices are served.

It says nothing of an API server without resource.k8s.io/v1.
"""

from __future__ import annotations

from app.doctor.claims_data import network_data
from app.doctor.claims_publishers import drivers, multus, publishers
from app.doctor.claims_roads import roads
from app.doctor.claims_services import definitions, services
from app.doctor.model import Check
from app.kube.resources import RESOURCE_CLAIMS

_PARTS = (publishers, network_data, drivers, multus, roads, services, definitions)
CHECK = Check("claims", _PARTS, about=RESOURCE_CLAIMS)
