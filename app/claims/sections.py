"""Section `claims`, where a role of Berth publishes network data."""

from __future__ import annotations

from app.claims.stored import stored_claim
from app.kube.resources import RESOURCE_CLAIMS
from app.status.model import Found, Section
from app.status.reading import Reading


async def _read(reading: Reading) -> Found | None:
    """Every cluster has ResourceClaims; they count where a role of Berth publishes their network data."""
    roles = await reading.workloads()
    if not any(
        role.role == "claims-node" or (role.role == "controller" and "claims" in role.setting("controllers"))
        for role in roles
    ):
        return None
    allocated = published = 0
    async for obj in reading.each(reading.cluster.paged(RESOURCE_CLAIMS)):
        claim = stored_claim(obj)
        allocated += claim.allocated
        published += any(entry.network_data is not None for entry in claim.entries.values())
    return Found({"allocated": allocated, "published": published}, unread=tuple(reading.unread))


SECTION = Section(
    "claims",
    "CLAIMS",
    "ResourceClaims, where Berth publishes network data in them.",
    _read,
    totals={"allocated": "ResourceClaims with devices", "published": "those with network data of a device"},
)
