"""Section `attachments`: those whose resource, or device class, neither a node nor a driver offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from app.claims.roads import Demand, Offer, allocatable_of, demands_of
from app.doctor.model import Severity
from app.kube.resources import DEVICE_CLASSES, NETWORK_ATTACHMENTS, RESOURCE_SLICES
from app.networks.model import project_with_claims
from app.networks.settings import NetworksSettings
from app.status.model import Column, Found, Row, Section, Value
from app.status.reading import Reading
from app.wire import JSON


class Asked(NamedTuple):
    """How many attachments ask for the same, and the first of them."""

    number: int
    first: str


async def _read(reading: Reading) -> Found | None:
    cluster, total = reading.cluster, 0
    keys = (await cluster.settings(NetworksSettings)).resource_name_keys
    asked: dict[Demand, Asked] = {}
    async for obj in reading.each(cluster.paged(NETWORK_ATTACHMENTS)):
        total += 1
        count(asked, obj, keys)
    if not total and not reading.unread and not await cluster.serves(NETWORK_ATTACHMENTS):
        return None
    # The allocatable amounts alone are kept of nodes.
    nodes = {name: amounts async for node in reading.nodes() for name, amounts in allocatable_of([node]).items()}
    classes, slices = [
        await reading.tried(cluster.listed(resource), []) for resource in (DEVICE_CLASSES, RESOURCE_SLICES)
    ]
    # Without all of them it is not known what is missing.
    lacking = [] if reading.unread else list(unoffered(asked, Offer(nodes, classes, slices)))
    without = None if reading.unread else sum(asked[request].number for request, _ in lacking)
    rows = tuple(row for _, row in lacking)
    return Found({"attachments": total, "unoffered": without}, rows, tuple(reading.unread))


def count(asked: dict[Demand, Asked], attachment: JSON, keys: Sequence[str]) -> None:
    """Add what Pods that select the attachment ask for."""
    name = "{namespace}/{name}".format(**attachment["metadata"])
    for demand in demands_of(project_with_claims(attachment, keys)):
        if demand.name:
            before = asked.get(demand, Asked(0, name))
            asked[demand] = Asked(before.number + 1, min(before.first, name))


def unoffered(asked: Mapping[Demand, Asked], offer: Offer) -> Iterator[tuple[Demand, Row]]:
    """What nothing offers; it is information, for an attachment may be there before its driver."""
    for demand, asking in sorted(asked.items()):
        road = demand.road(offer)
        if road.missing:
            resource = f"DeviceClass {demand.name}" if demand.by_class else demand.name
            values: dict[str, Value] = {
                "resource": resource,
                "attachments": asking.number,
                "example": asking.first,
            }
            yield demand, Row({**values, "message": road.text}, Severity.info)


SECTION = Section(
    "attachments",
    "ATTACHMENTS",
    "NetworkAttachmentDefinitions, and the resources of theirs that no node and no driver offers.",
    _read,
    words={"unoffered": "of them for a device that nothing offers"},
    totals={"attachments": "NetworkAttachmentDefinitions", "unoffered": "those whose resource nothing offers"},
    columns=(
        Column("resource", "the resource, or `DeviceClass NAME`"),
        Column("attachments", "how many ask for it"),
        Column("example", "the first of them"),
        Column("message", "what is missing", shown="note"),
    ),
    of_users=True,
)
