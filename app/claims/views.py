"""View `claims`: ResourceClaims with their devices, the addresses and taints of these, and who may use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from app.claims.stored import Claim, stored_claim
from app.claims.why.devices import Device, Place, taint_rules, tainted, taints_of
from app.doctor.objects import Object
from app.errors import ApiError
from app.kube.resources import RESOURCE_CLAIMS
from app.text import several
from app.ui.details import Detail, Line, detail, line
from app.ui.objects import Field, Listed, objects_view
from app.ui.view import Asked
from app.why.model import Verdict
from app.wire import JSON


async def _detail(asked: Asked, it: Object, _verdict: Verdict | None) -> Detail:
    claim, unread, devices = stored_claim(it.json), list[Line](), dict[Place, Device]()
    rules = await asked.kept("taint rules", taint_rules)
    try:
        devices = await asked.kept("tainted devices", tainted)
    except ApiError as refusal:
        if not refusal.status or refusal.status == 401:
            raise
        unread.append(line(refusal))
    consumers = ", ".join(f"{consumer.resource}/{consumer.name}" for consumer in claim.consumers)
    return detail(
        (*unread, *_devices(claim, devices, rules)),
        devices=several(len(claim.results), "device") if claim.allocated else "not allocated",
        node=claim.node,
        consumers=consumers,
    )


def _devices(claim: Claim, tainted: Mapping[Place, Device], rules: Iterable[JSON]) -> Iterator[Line]:
    """Each device with its interface, its addresses and its taints."""
    for result in claim.results:
        key = result.device
        device = tainted.get(key[:3]) or {"driver": key.driver, "pool": key.pool, "name": key.device}
        entry = claim.entries.get(key)
        data = (entry.network_data if entry is not None else None) or {}
        parts = [str(data.get("interfaceName") or ""), str(data.get("hardwareAddress") or ""), *(data.get("ips") or ())]
        parts += [
            f"tainted {taint.get('key')}{'=' * bool(taint.get('value'))}{taint.get('value') or ''}:"
            f"{taint.get('effect')} {source}"
            for taint, source in taints_of(device, rules)
        ]
        said = ", ".join(filter(None, parts)) or "no network data"
        yield line(f"{key}{' (admin)' if result.admin_access else ''}: {said}")


VIEW = objects_view(
    "claims",
    "Claims",
    "ResourceClaims with their devices, the interfaces, addresses and taints of these, and who may use them.",
    Listed(
        RESOURCE_CLAIMS,
        (Field("devices", "devices"), Field("node", "node"), Field("consumers", "reserved for")),
        _detail,
    ),
)
