"""Section `claims`, where a role of Berth publishes network data."""

from __future__ import annotations

from collections.abc import Iterator

from app.claims.slices import Pools, stored_slice
from app.claims.stored import Claim, stored_claim
from app.claims.why.publishers import drivers_without_data, publishers_of
from app.doctor.catalog import plain
from app.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from app.status.model import Column, Found, Section
from app.status.reading import Reading
from app.status.verdicts import Reasons


async def _read(reading: Reading) -> Found | None:
    """Every cluster has ResourceClaims; they count where a role of Berth publishes their network data."""
    roles = [] if reading.cluster.scope else await reading.workloads()
    if not reading.cluster.scope and not any(
        role.role == "claims-node" or (role.role == "controller" and "claims" in role.setting("controllers"))
        for role in roles
    ):
        return None
    slices = await reading.tried(reading.cluster.listed(RESOURCE_SLICES), [])
    selfish = frozenset((await publishers_of(reading.cluster)).settings.claims_self_publishing)
    pools, allocated, published = Pools(map(stored_slice, slices)), 0, 0
    lacking = Reasons()
    async for obj in reading.each(reading.cluster.paged(RESOURCE_CLAIMS)):
        claim = stored_claim(obj)
        allocated += claim.allocated
        published += any(entry.network_data is not None for entry in claim.entries.values())
        for reason in dict.fromkeys(_reasons(claim, pools, selfish)):
            lacking.add(reason, "/".join(claim.key))
    return Found({"allocated": allocated, "published": published}, lacking.rows(), tuple(reading.unread))


def _reasons(claim: Claim, pools: Pools, selfish: frozenset[str]) -> Iterator[str]:
    """What there is to ask `berth why` of a claim, as far as it says so itself."""
    if not claim.allocated:
        if claim.pod is not None:
            yield "not allocated"
    elif not claim.consumers:
        yield "held for no Pod"
    elif [consumer.resource for consumer in claim.consumers] == ["pods"]:
        for driver in drivers_without_data(claim, pools, selfish):
            yield f"no network data of {plain(driver)}"


SECTION = Section(
    "claims",
    "CLAIMS",
    "ResourceClaims, if Berth publishes network data in them; items are those without devices or data, by reason.",
    _read,
    words={"published": "with network data"},
    totals={"allocated": "ResourceClaims with devices", "published": "those with network data of a device"},
    columns=(
        Column("reason", "what they lack; `berth why resourceclaim/NAME` says why"),
        Column("count", "how many"),
        Column("example", "the first of them"),
    ),
    of_users=True,
)
